"""The table of options, src/base/options.def, beside the interfaces and the documents that have them."""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import re
import subprocess
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import lithify
from lithify import _core
from tests.cases import ROOT
from tests.driver import LITHIFY
from tests.test_capi import MODEL, OK, Handle, lib, options  # noqa: F401

DATA = ROOT / "tests" / "data"
# Members of ExportOptions that are not options: who reads the messages.
NO_OPTIONS = {"interface"}
# Options of the program that are not about the model, and short forms.
OF_THE_PROGRAM = {"--help", "--output", "--json", "--verbose", "--quiet", "--no-recover", "--at", "--report"}
# The same option by another function.
ALSO_IN_C = {"lithify_options_add_also_bytes"}


@dataclass
class Option:
    """A row of the table; a name is empty where the interface lacks the option."""

    name: str
    kind: str
    cpp: str
    c: str
    python_export: str
    python_files: str
    command_line: str
    scope: str
    meaning: str
    reasons: list[str]

    @property
    def functions(self) -> list[str]:
        files = ["convert", "check"] if self.scope == "Everywhere" else ["convert"]
        return ["export"] * bool(self.python_export) + files * bool(self.python_files)


@functools.cache
def calls() -> list[ast.Call]:
    """The rows are calls of Python as well as of C++; lines of the preprocessor are comments to Python."""
    text = (ROOT / "src/base/options.def").read_text().replace("//", "#")
    return [node.value for node in ast.parse(text).body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]


def rows(macro: str) -> list[list[str]]:
    """The arguments of every call of a macro: texts and names; LACKS is an empty text."""

    def plain(node: ast.expr) -> str:
        if isinstance(node, ast.Call):
            return ""
        return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)

    return [[plain(a) for a in call.args] for call in calls() if isinstance(call.func, ast.Name) and call.func.id == macro]


def reasons(name: str) -> list[str]:
    """Why interfaces lack an option."""
    (row,) = [c for c in calls() if isinstance(c.args[0], ast.Constant) and c.args[0].value == name]
    return [ast.literal_eval(cell.args[0]) for cell in row.args if isinstance(cell, ast.Call)]


OPTIONS = [Option(*row, reasons(row[0])) for row in rows("OPTION")]
CHOICES: dict[str, dict[str, tuple[str, str]]] = {}
for member, choice, enum, enumerator, constant in rows("CHOICE"):
    CHOICES.setdefault(member, {})[choice] = f"{enum}::{enumerator}", constant


def named(of: Callable[[Option], str]) -> set[str]:
    return {of(o) for o in OPTIONS if of(o)}


# ---- the table itself -----------------------------------------------------------------------------------


def test_rows_are_whole() -> None:
    assert len({o.name for o in OPTIONS}) == len(OPTIONS) > 15
    assert {o.name for o in OPTIONS if o.kind == "Choice"} == set(CHOICES)
    for o in OPTIONS:
        cells = [o.cpp, o.c, o.python_export, o.python_files, o.command_line]
        assert len(o.reasons) == cells.count(""), f"{o.name}: an interface that lacks it has a reason, and only such"
        assert all(len(reason) > 20 for reason in o.reasons), o.name
        assert o.meaning and not o.meaning.endswith("."), o.name
        assert o.scope in ("Everywhere", "Export"), o.name
    assert f"{_core.lowest_opset} to {_core.highest_opset}" in OPTIONS[0].meaning


# ---- the interfaces -------------------------------------------------------------------------------------


def test_cpp() -> None:
    header = (ROOT / "include/lithify/lithify.hpp").read_text()
    body = re.search(r"^struct ExportOptions \{(.*?)^\};", header, re.MULTILINE | re.DOTALL)
    assert body is not None
    members = re.findall(r"^  [\w:<>, ()_]+? (\w+)(?: = [\w:]+)?;", body[1], re.MULTILINE)
    assert set(members) - NO_OPTIONS == named(lambda o: o.cpp)
    for member, chosen in CHOICES.items():
        enum = next(iter(chosen.values()))[0].split("::")[0]
        listed = re.search(rf"enum class {enum} \{{(.*?)\}}", body[1], re.DOTALL)
        assert listed is not None, member
        assert re.findall(r"^\s*(\w+)", re.sub(r"///<.*", "", listed[1]), re.MULTILINE) == [
            name.split("::")[1] for name, _ in chosen.values()
        ]


def test_c() -> None:
    header = (ROOT / "include/lithify/lithify.h").read_text()
    declared = set(re.findall(r"\b(lithify_options_(?:set|add)_\w+)\(", header))
    assert declared - ALSO_IN_C == named(lambda o: o.c)
    constants = dict(re.findall(r"\b(LITHIFY_(?:RECOVER|STATE|EXTERNAL_DATA|WEIGHTS|PRECISION)_\w+) = (\d)", header))
    assert list(constants) and set(constants) == {constant for chosen in CHOICES.values() for _, constant in chosen.values()}
    for chosen in CHOICES.values():
        assert [constants[constant] for _, constant in chosen.values()] == [str(i) for i in range(len(chosen))]


@pytest.mark.parametrize("function", ["export", "convert", "check"])
def test_python(function: str) -> None:
    signature = inspect.signature(getattr(lithify, function))
    argument: Callable[[Option], str] = lambda o: o.python_export if function == "export" else o.python_files  # noqa: E731
    expected = {argument(o): o for o in OPTIONS if function in o.functions}
    assert set(expected) <= set(signature.parameters), "the function lacks these"
    if function != "export":  # which has those of torch.onnx.export as well
        assert set(signature.parameters) == set(expected) | {"model", "out"} - ({"out"} if function == "check" else set())
    hints = typing.get_type_hints(getattr(lithify, function), vars(inspect.getmodule(getattr(lithify, function))))
    for name, option in expected.items():
        if option.kind == "Choice":
            literal = [h for h in (hints[name], *typing.get_args(hints[name])) if typing.get_origin(h) is typing.Literal]
            assert list(typing.get_args(literal[0])) == list(CHOICES[option.name]), name


def test_extension_module() -> None:
    made = {name for name in vars(_core.Options) if not name.startswith("_")}
    assert made == named(lambda o: o.cpp)
    stub = ast.parse((ROOT / "python/lithify/_core.pyi").read_text())
    (options_,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Options"]
    assert made == {
        getattr(n, "name", None) or ast.unparse(n.target)  # type: ignore[attr-defined]
        for n in options_.body
        if isinstance(n, ast.FunctionDef | ast.AnnAssign)
    } - {"__init__"}
    for member, chosen in CHOICES.items():
        for choice in chosen:
            setattr(_core.Options(), member, choice)
        with pytest.raises(ValueError, match=f"{member} is .*'{list(chosen)[-1]}', not 'perhaps'"):
            setattr(_core.Options(), member, "perhaps")


@pytest.mark.parametrize("command", ["export", "check"])
def test_command_line(command: str) -> None:
    done = subprocess.run([str(LITHIFY), command, "--help"], capture_output=True, text=True, check=True)
    listed = {name for line in re.findall(r"^  (?:-\w,)?(--[\w-]+)", done.stdout, re.MULTILINE) for name in [line]}
    expected = {o.command_line.split()[0]: o for o in OPTIONS if o.command_line and (command == "export" or o.scope != "Export")}
    assert listed - OF_THE_PROGRAM == set(expected)
    text = " ".join(done.stdout.split())
    for option in expected.values():
        assert option.meaning in text, f"the help of {option.command_line} is another"
        if option.kind == "Choice":
            assert "{" + ",".join(CHOICES[option.name]) + "}" in text


# ---- the documents --------------------------------------------------------------------------------------


def code(name: str) -> str:
    return f"`{name}`" if name else ""


def test_readme() -> None:
    text = (ROOT / "README.md").read_text()
    table = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `--"))
    missing = {o.command_line for o in OPTIONS if o.command_line and not re.search(rf"`{o.command_line}(?![\w-])", table)}
    assert not missing
    known = {o.command_line.split()[0] for o in OPTIONS if o.command_line} | OF_THE_PROGRAM
    assert set(re.findall(r"`(--[\w-]+)", table)) <= known


def test_page_of_cpp() -> None:
    """The page has the rows of the table, word by word."""
    text = (ROOT / "docs/cpp.md").read_text().splitlines()
    expected = [f"| {code(o.cpp)} | {code(o.c)} | {o.meaning} |" for o in OPTIONS if o.cpp or o.c]
    assert [row for row in expected if row not in text] == []


def test_page_of_python() -> None:
    text = (ROOT / "docs/python.md").read_text().splitlines()
    expected = [
        f"| {code(o.python_export or o.python_files)} | {', '.join(code(f) for f in o.functions)} | {o.meaning} |"
        for o in OPTIONS
        if o.functions
    ]
    assert [row for row in expected if row not in text] == []


# ---- messages -------------------------------------------------------------------------------------------


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


SPELLINGS = {
    "cpp": "options.state = lithify::ExportOptions::State::InOut",
    "c": "lithify_options_set_state(options, LITHIFY_STATE_IO)",
    "python": 'state="io"',
    "command line": "--state io",
}


def says(text: str, interface: str) -> None:
    """The text names the option of this interface, and of no other."""
    assert [name for name, spelling in SPELLINGS.items() if spelling in text] == [interface], text


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    torch.jit.trace(Counter(), torch.ones(2)).save(str(tmp_path / "counter.pt"))
    return tmp_path / "counter.pt"


def test_hint_of_the_command_line(counter: Path, out: Path) -> None:
    for command in (["export", counter, "-o", out], ["check", counter]):
        done = subprocess.run([str(LITHIFY), *map(str, command)], capture_output=True, text=True)
        assert done.returncode == 1
        says(done.stderr + done.stdout, "command line")
    check = subprocess.run([str(LITHIFY), "check", str(counter), "--state", "io"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


def test_hint_of_python(counter: Path, tmp_path: Path) -> None:
    with pytest.raises(lithify.ExportError) as caught:
        lithify.export(Counter(), torch.ones(2))
    says(str(caught.value), "python")
    with pytest.raises(lithify.ExportError) as caught:
        lithify.convert(counter, tmp_path / "model.onnx")
    says(str(caught.value), "python")
    says(lithify.check(counter).messages[0].hint, "python")
    assert lithify.check(counter, state="io")


def test_hint_of_c(lib: ctypes.CDLL, options: int, counter: Path) -> None:  # noqa: F811
    for handle in (None, options):
        result = Handle()
        assert lib.lithify_check_file(str(counter).encode(), handle, ctypes.byref(result)) == MODEL
        says(lib.lithify_result_message(result, 0).decode(), "c")
        assert lib.lithify_result_free(result) == OK
    assert lib.lithify_options_set_state(options, 1) == OK
    assert lib.lithify_check_file(str(counter).encode(), options, None) == OK


def test_terms_name_what_there_is() -> None:
    for name, cpp, c, python, command_line in rows("TERM"):
        assert set(re.findall(r"ExportOptions::(\w+)", cpp)) <= named(lambda o: o.cpp), name
        assert set(re.findall(r"lithify_options_\w+", c)) <= named(lambda o: o.c), name
        assert set(re.findall(r"--[\w-]+", command_line)) <= named(lambda o: o.command_line), name
        assert all(hasattr(lithify, function) for function in re.findall(r"lithify\.(\w+)", python)), name
        assert "--" not in cpp + c + python, name


def test_no_text_of_the_core_names_an_option_by_itself() -> None:
    """The core says option("also"); only the command line knows `--also`."""
    folders = [p for p in (ROOT / "src").iterdir() if p.name not in ("cli", "base")] + [ROOT / "libtorch"]
    spelled = re.compile("|".join(rf"{re.escape(o.command_line)}\b" for o in OPTIONS if o.command_line))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in folders
        for path in folder.rglob("*.?pp")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if spelled.search(line) and not line.strip().startswith("//")
    ]
    assert not found, "\n".join(found)


# ---- options that an interface got late -----------------------------------------------------------------


class Repeat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = x * 2 + 1
        return x


class Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1) / len(range(len(x[0])))  # a constant in a trace


class Flat(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(len(range(len(x))) * 4) if torch.jit.is_tracing() else x.view(-1)


def traced(net: nn.Module, path: Path, *sizes: int) -> Path:
    torch.jit.trace(net, torch.randn(*sizes)).save(str(path))
    return path


def test_unroll(tmp_path: Path) -> None:
    script = torch.jit.script(Repeat())
    assert "Loop" not in lithify.export(script, torch.ones(2)).nodes
    assert lithify.export(script, torch.ones(2), unroll=4).nodes["Loop"] == 1
    script.save(str(tmp_path / "repeat.pt"))
    given = {"inputs": ["x:float32[2]"], "unroll": 4}
    assert dict(lithify.convert(tmp_path / "repeat.pt", tmp_path / "m.onnx", **given).nodes)["Loop"] == 1


def test_sizes_of_live_models() -> None:
    given = {"dynamic_axes": {"x": {1: "m"}}, "capture": "trace"}
    (*_, warning) = lithify.export(Mean(), torch.randn(3, 10), **given).messages
    assert (warning.code, warning.severity) == ("LTH064", "warning") and 'capture="auto"' in warning.hint
    with pytest.raises(lithify.ExportError, match="LTH064"):
        lithify.export(Mean(), torch.randn(3, 10), **given, strict=True)
    given = {"dynamic_axes": {"x": {0: "n"}}, "capture": "trace"}
    assert lithify.export(Flat(), torch.randn(3, 4), **given).outputs[0].shape == ["4*n"]
    with pytest.raises(lithify.ExportError, match="LTH061"):
        lithify.export(Flat(), torch.randn(3, 4), **given, recover="never")


def test_without_recovery_captures_may_not_differ(tmp_path: Path) -> None:
    """The constant of the first capture would be wrong at every other size."""
    first, second = traced(Mean(), tmp_path / "a.pt", 3, 10), traced(Mean(), tmp_path / "b.pt", 3, 12)
    given = {"dynamic_axes": {"x": {1: "m"}}, "also": [second]}
    assert lithify.check(first, **given)
    with pytest.raises(lithify.ExportError, match=r'LTH061(?s:.*)recover="decided"'):
        lithify.convert(first, tmp_path / "m.onnx", **given, recover="never")


def test_sizes_in_files(tmp_path: Path) -> None:
    first, second = traced(Flat(), tmp_path / "a.pt", 3, 4), traced(Flat(), tmp_path / "b.pt", 5, 4)
    axes = {"x": {0: "n"}}
    assert lithify.check(first, dynamic_axes=axes)
    refused = lithify.check(first, dynamic_axes=axes, recover="never")
    assert not refused and refused.messages[0].code == "LTH061"
    assert lithify.check(first, dynamic_axes=axes, also=[second], strict=True)
    done: list[int] = []
    result = lithify.convert(first, tmp_path / "m.onnx", discover=True, progress=lambda now, total: done.append(now))
    assert result.inputs[0].shape == ["x_0", "x_1"] and done
    found = subprocess.run(
        [str(LITHIFY), "check", first, "--dynamic", "x:0=n", "--also", second, "--strict"], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_sizes_in_c(lib: ctypes.CDLL, options: int, tmp_path: Path) -> None:  # noqa: F811
    first, second = traced(Flat(), tmp_path / "a.pt", 3, 4), traced(Flat(), tmp_path / "b.pt", 5, 4).read_bytes()
    model = str(first).encode()
    assert lib.lithify_options_add_dynamic_axis(options, b"x", 0, b"n") == OK
    assert lib.lithify_options_set_recover(options, 0) == OK
    assert lib.lithify_check_file(model, options, None) == MODEL
    assert lib.lithify_options_set_recover(options, 1) == OK
    assert lib.lithify_check_file(model, options, None) == OK
    assert lib.lithify_options_add_also_bytes(options, second, len(second)) == OK
    assert lib.lithify_options_add_also(options, str(tmp_path / "b.pt").encode()) == OK
    assert lib.lithify_options_set_strict(options, 1) == OK
    assert lib.lithify_check_file(model, options, None) == OK
    for handle, status in ((options, 3), (None, 2)):
        for name in ("recover", "state", "external_data"):
            assert getattr(lib, f"lithify_options_set_{name}")(handle, 3) == status
        for name in ("strict", "discover", "skip_sync", "self_check"):
            assert getattr(lib, f"lithify_options_set_{name}")(handle, 2) == status
        assert lib.lithify_options_set_unroll(handle, -1) == status
        assert lib.lithify_options_set_budget(handle, 0) == status
        assert lib.lithify_options_add_also(handle, b"") == status
        assert lib.lithify_options_add_also_bytes(handle, None, 3) == status
        assert lib.lithify_options_add_custom_opset(handle, b"mine", 0) == status
    assert lib.lithify_options_set_discover(options, 1) == OK
    assert lib.lithify_options_set_self_check(options, 1) == OK
    assert lib.lithify_options_set_unroll(options, 4) == OK
    assert lib.lithify_options_set_budget(options, 4) == OK
    assert lib.lithify_options_add_custom_opset(options, b"mine", 2) == OK


def test_versions_of_custom_domains(tmp_path: Path, out: Path) -> None:
    library = torch.library.Library("lithify_domain", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.lithify_domain.twice(x)

    import onnx

    model = traced(Twice(), tmp_path / "twice.pt", 2)
    command = [str(LITHIFY), "export", model, "-o", out, "--allow-custom", "--custom-opset"]
    assert subprocess.run([*command, "lithify_domain=7"], capture_output=True).returncode == 0
    assert {o.domain: o.version for o in onnx.load(str(out)).opset_import}["lithify_domain"] == 7
    for bad in ("lithify_domain", "=2", "lithify_domain=0", "lithify_domain=x", "lithify_domain=99999999999"):
        done = subprocess.run([*command, bad], capture_output=True, text=True)
        assert done.returncode == 2 and "--custom-opset" in done.stderr
    lithify.convert(model, out, allow_custom=True, custom_opsets={"lithify_domain": 3})
    assert {o.domain: o.version for o in onnx.load(str(out)).opset_import}["lithify_domain"] == 3
