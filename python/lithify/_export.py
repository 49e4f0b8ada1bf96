"""lithify.export: the call of torch.onnx.export."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from lithify import _core
from lithify._errors import ExportError
from lithify._files import Precision, Recover, State, Weights, declarations, opset_of, options
from lithify._messages import announce

if TYPE_CHECKING:
    from lithify._call import Call

NEEDS_NUMBERS = ("LTH042", "LTH044")  # what an export fails with where it needs to know a number


@dataclass
class Result:
    """What was exported. Printed, it is a short report."""

    path: Path | None
    bytes: bytes | None = field(repr=False)  # the model, when there was no path
    inputs: list[_core.ValueInfo]
    outputs: list[_core.ValueInfo]
    opset: int
    nodes: dict[str, int]  # by operator, most frequent first
    weights: int
    weight_bytes: int
    file_bytes: int
    quantized: list[_core.QuantizedWeight]  # weights in blocks of integers, each with its error
    external_file: Path | None
    dimensions: list[_core.DimensionClaim]  # what is claimed of each dynamic one
    claims: _core.Claims = field(repr=False)  # at which sizes the file is right; also in its metadata
    capture: str  # how the model was captured
    why: str  # and the reason
    messages: list[_core.Message] = field(repr=False)  # warnings and notes of the conversion
    notes: list[str]  # what is worth knowing of the call
    constants: dict[str, Any]  # the arguments that are no inputs: numbers that the model uses as Python values
    seconds: dict[str, float]
    graph: str = field(repr=False)  # one line a node
    table: str = field(repr=False)  # what the command line prints

    def __str__(self) -> str:
        head = f"{self.path or 'in memory'} (opset {self.opset})\n{self.table}"
        return "\n".join([head.rstrip("\n")] + [f"  note     {n}" for n in self.notes] + [str(m) for m in self.messages])

    def _repr_html_(self) -> str:
        """For notebooks."""
        from lithify._html import table_of

        return table_of(self)


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | IO[bytes] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | str | None = None,
    dynamo: bool = False,
    external_data: bool | Literal["auto", "always", "never"] = "auto",
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    custom_translation_table: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool | Literal["auto"] | None = "auto",
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool | None = False,
    dynamic_axes: Mapping[str, Any] | Literal["auto"] | None = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type] = False,
    autograd_inlining: bool = True,
    fallback: bool = False,
    samples: Sequence[Any] = (),
    capture: Literal["auto", "trace", "script", "export"] = "auto",
    progress: Callable[[int, int], None] | None = None,
    custom_ops: str | os.PathLike[str] | None = None,
    allow_custom: bool = False,
    state: State = "error",
    recover: Recover = "decided",
    strict: bool = False,
    unroll: int = 128,
    budget: int = 1,
    capture_runs: int = 24,
    capture_seconds: float = 5,
    target: str = "",
    weights: Weights = "unchanged",
    weights_block: int = 32,
    precision: Precision = "unchanged",
    keep_weights: Sequence[str] = (),
    skip_sync: bool = False,
    self_check: bool = False,
) -> Result:
    """Writes `model` as ONNX. All arguments are those of torch.onnx.export, and these:

    verify: compare the file with the model in ONNX Runtime: at the sample and at several other sizes and contents (True), never
        (False), or where the captures do not prove all sizes, if onnxruntime is installed ("auto", None).
    samples: other arguments, each as `args`: they show what depends on contents of tensors, and the file is compared with the
        model on them.
    capture: how the program is taken from the model: "trace", "script", "export" (torch.export), or "auto".
    progress: called with the bytes written and the bytes in all.
    custom_ops: a file of declarations of custom operators.
    allow_custom: keep unknown operators as nodes of the domain that their namespace names.
    state: what happens to buffers that the model changes and its results depend on: the model is refused ("error"), they
        become inputs and outputs ("io"), or every run starts from what they are now ("frozen").
    recover: which hard-coded sizes become formulas of the dynamic dimensions again: none ("never"), those that the program
        decides ("decided"), or also those that it leaves a choice for ("guess").
    strict: refuse constants that may be sizes of the sample, of which the default only warns.
    unroll: unroll loops of at most this many iterations, where that is known; others become Loop.
    budget: allow this many times the default work and memory that a program may take at export.
    capture_runs: run the model at most this many times at other sizes, to capture what it does there; what is left out limits
        the claims.
    capture_seconds: start no further run of the model after this many seconds of processor time in runs at other sizes, or
        four times as many for what contents of tensors decide.
    target: instead of opset_version: the newest opset that a runtime loads, such as "ort-1.17"; or "ort": operators that only
        ONNX Runtime has may be used, in any opset.
    weights: store large weights of matrix products and tables in blocks of integers: "int8", "uint8", "int4" or "uint4"; this
        changes results, so it does not go with verify=True.
    weights_block: how many elements of a quantized weight have one scale: 16, 32, 64, 128 or 256.
    precision: store weights and compute in "float16" or "bfloat16", but for what needs float32; inputs and outputs stay as they
        are. This changes results, so it does not go with verify=True.
    keep_weights: weights or modules that `weights` and `precision` leave as they are, such as "lm_head"; * stands for any text.
    skip_sync: do not wait until the output is on the disk: faster, and it may be incomplete after a power failure.
    self_check: compare every value with the type and sizes that torch.export recorded of it.

    `dynamic_axes` may be "auto": every axis is dynamic that can be, as far as the sample shows.
    `opset_version` is a number, "latest", or a runtime, whose newest opset it stands for: "ort-1.17". Without it, the file has
        the lowest opset from 18 on that can express the model.

    `f` is a path, a file open for writing bytes, or None: then the result has the bytes.
    dynamo, optimize, do_constant_folding, autograd_inlining and fallback choose how torch works, and change nothing here.
    Raises ExportError with every reason, and leaves no file behind.
    """
    _refuse(
        ("export_params=False", not export_params, "the weights are always in the model"),
        ("verify=True with quantized weights", verify is True and weights != "unchanged", "results differ from the model's"),
        ("verify=True with precision", verify is True and precision != "unchanged", "results differ from the model's"),
        ("keep_initializers_as_inputs=True", bool(keep_initializers_as_inputs), "weights are not inputs from opset 9 on"),
        ("export_modules_as_functions", bool(export_modules_as_functions), "torch no longer has it, either"),
        ("dump_exported_program=True", dump_exported_program, "torch.export.save writes one"),
        ("profile=True", profile, "the seconds of each stage are in the result"),
        ("operator_export_type", _enum(operator_export_type) not in ("", "ONNX"), "only operators of ONNX are written"),
    )
    if capture not in ("auto", "trace", "script", "export"):
        raise ValueError(f"capture is 'auto', 'trace', 'script' or 'export', not {capture!r}")
    if verify not in (True, False, None, "auto"):
        raise ValueError(f"verify is True, False or 'auto', not {verify!r}")
    if dynamic_axes and dynamic_shapes:
        raise ExportError("dynamic_axes and dynamic_shapes are both given: pass one of them")

    path = os.fspath(f) if isinstance(f, str | os.PathLike) else None

    from lithify._call import Call
    from lithify._custom import Translations
    from lithify._functions import Functions
    from lithify._mistakes import check_file

    check_file(f)

    translations = Translations(custom_translation_table or {})
    functions = Functions(translations.functions, translations.add, symbolic=not dynamo, versions=custom_opsets)
    if not dynamo:
        for operator, symbolic in _registered(opset_of(opset_version) or _core.default_opset, custom_opsets or {}):
            translations.add(operator, symbolic, by_name=True)
    mode = _enum(training)
    call = Call(
        model, args, kwargs, mode, input_names, output_names, dynamic_axes, dynamic_shapes, translations, functions, samples
    )
    call.checks = verify is not False
    chosen = options(
        opset=opset_of(opset_version),
        custom_ops=declarations(custom_ops),
        allow_custom=allow_custom,
        external_data=_external(external_data, path is not None),
        progress=progress,
        state=state,
        recover=recover,
        strict=strict,
        unroll=unroll,
        budget=budget,
        capture_runs=capture_runs,
        capture_seconds=capture_seconds,
        target=target,
        weights=weights,
        weights_block=weights_block,
        precision=precision,
        keep_weights=list(keep_weights),
        skip_sync=skip_sync,
        self_check=self_check,
        custom_opsets=dict(custom_opsets or {}),
    )
    with _written(path if verify is True else None) as folder:
        target = str(folder / Path(path).name) if folder is not None and path is not None else path
        try:
            call.discover(chosen)
            done, contents = _exported(call, call.strategy or capture, target, chosen)
        except ExportError:
            if translations.error is not None:
                raise translations.error from None
            raise
        if verify is True:
            from lithify._verify import verify_call

            verify_call(call, target if contents is None else contents).check()
    if contents is not None and f is not None:
        f.write(contents)  # type: ignore[union-attr]
        contents = None
    external = Path(done.external_file) if done.external_file else None
    result = Result(
        path=Path(path) if path is not None else None,
        bytes=contents,
        inputs=done.inputs,
        outputs=done.outputs,
        opset=done.opset,
        nodes=dict(done.nodes),
        weights=done.weights,
        weight_bytes=done.weight_bytes,
        file_bytes=done.file_bytes,
        quantized=done.quantized,
        external_file=Path(str(path)).parent / external.name if external is not None else None,
        dimensions=done.dimensions,
        claims=done.claims,
        capture=done.capture,
        why=f"the model is a {type(call.model).__name__}" if call.strategy else done.capture_reason,
        messages=done.messages,
        notes=call.notes
        + [f"'{n}' is the constant {v} in the file, not an input: {why}" for n, (v, why) in call.constants.items()],
        constants={name: value for name, (value, _) in call.constants.items()},
        seconds=dict(done.seconds),
        graph=done.graph_text,
        table=done.text(),
    )
    announce(result.messages, result.notes)
    if verbose:
        print(result.graph, end="")
    if report:
        (Path(artifacts_dir) / "lithify_export_report.txt").write_text(f"{result}\n\n{result.graph}")
    return result


def _exported(call: Call, how: str, target: str | None, chosen: _core.Options) -> tuple[_core.ExportResult, bytes | None]:
    """The export. Where a number among the arguments cannot be an input, it is a constant, as in torch.onnx.export."""
    try:
        return _core.export_live(call, how, target, chosen)
    except ExportError as error:
        if not any(m.code in NEEDS_NUMBERS for m in error.messages) or not call.keep_numbers():
            raise
        with contextlib.suppress(ExportError):
            return _core.export_live(call, how, target, chosen)
        raise


def _registered(opset: int, versions: Mapping[str, int]) -> list[tuple[Any, Callable[..., Any]]]:
    """Operators of torch.onnx.register_custom_op_symbolic, with their translations: those that the core has no rule for."""
    from lithify import _symbolic, _torch

    found = _torch.registered_symbolics(opset)
    known = {operator.name for operator in _core.supported_operators()} if found else set()
    return [(op, _symbolic.registered(name, function, versions)) for name, op, function in found if name not in known]


@contextlib.contextmanager
def _written(path: str | None) -> Iterator[Path | None]:
    """A folder beside the path, whose files replace those beside it at the end, that of the path last. After an exception all is
    as it was. None, where there is no path."""
    if path is None:
        yield None
        return
    model = Path(path).absolute()
    if not model.parent.is_dir():  # the core has the message
        yield None
        return
    with tempfile.TemporaryDirectory(prefix=".lithify-", dir=model.parent) as folder:
        yield Path(folder)
        for file in sorted(Path(folder).iterdir(), key=lambda file: file.name == model.name):
            file.replace(model.parent / file.name)


def _external(value: bool | str, to_path: bool) -> str:
    """True is a file of weights beside that of the model, as in torch.onnx.export; bytes have none."""
    return {True: "always" if to_path else "auto", False: "never"}.get(value, value)  # type: ignore[arg-type, return-value, call-overload]


def _enum(value: Any) -> str:
    """The name of an enumerator; torch's own have one without being enums of Python."""
    return "" if value is None else str(getattr(value, "name", value)).rpartition(".")[2]


def _refuse(*rows: tuple[str, bool, str]) -> None:
    for argument, asked, reason in rows:
        if asked:
            raise ExportError(f"{argument} is not supported: {reason}")
