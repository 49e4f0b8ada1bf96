"""Archives of torch.export as older releases wrote them, made from a current one."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def records(path: Path) -> dict[str, bytes]:
    """The records of a torch.export archive, named without its folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


Change = Callable[[Any, dict[str, torch.Tensor]], Any]


def layout_a(path: Path, out: Path, change: Change = lambda program, constants: program) -> Path:
    """Releases 2.1 to 2.7: plain names, and weights in torch.save files."""
    program = torch.export.load(str(path))
    text = json.dumps(change(json.loads(records(path)["models/model.json"]), program.constants))
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("serialized_exported_program.json", text)
        archive.writestr("serialized_state_dict.pt", saved(program.state_dict))
        archive.writestr("serialized_constants.pt", saved(dict(program.constants)))
        archive.writestr("serialized_example_inputs.pt", saved(program.example_inputs))
        archive.writestr("version", "8.7")
    return out


def layout_b(path: Path, out: Path) -> Path:
    """Release 2.8: folders, and weights in torch.save files."""
    program = torch.export.load(str(path))
    with zipfile.ZipFile(out, "w") as archive:
        for name, contents in {
            "models/model.json": records(path)["models/model.json"],
            "data/weights/model.pt": saved(program.state_dict),
            "data/constants/model.pt": saved(dict(program.constants)),
            "data/sample_inputs/model.pt": saved(program.example_inputs),
            "archive_format": b"pt2",
            "archive_version": b"0",
            ".data/version": b"6\n",
            "byteorder": b"little",
        }.items():
            archive.writestr(f"model/{name}", contents)
    return out


def as_in_2_5(program: Any, constants: dict[str, torch.Tensor]) -> Any:
    """Sizes as plain formulas, None as an empty list, no kinds of arguments, bare names of optional tensors, bare Infinity."""
    program["schema_version"] = {"major": 7, "minor": 3}
    program.pop("guards_code")
    return _rewrite(program)


def _rewrite(value: Any) -> Any:
    if isinstance(value, list):
        return [_rewrite(item) for item in value]
    if value == "Infinity" or value == "-Infinity" or value == "NaN":
        return float(value)
    if not isinstance(value, dict):
        return value
    if "as_none" in value:
        return {"as_none": []}
    if "expr_str" in value:
        return value | {"expr_str": _plain(value["expr_str"])}
    if "as_optional_tensors" in value:
        bare = [
            {"as_tensor": t["as_tensor"]["name"]} if "as_tensor" in t else {"as_none": []} for t in value["as_optional_tensors"]
        ]
        return {"as_optional_tensors": bare}
    dropped = ("kind", "is_hop_single_tensor_return", "treespec_namedtuple_fields", "name" if "target" in value else "")
    return {key: _rewrite(item) for key, item in value.items() if key not in dropped}


def _plain(srepr: str) -> str:
    import sympy
    from torch.utils._sympy import functions

    names = {n: getattr(functions, n) for n in functions.__all__} | {
        n: getattr(sympy, n) for n in ("Symbol", "Integer", "Add", "Mul")
    }
    return str(eval(re.sub(r"\b(Max|Min)\(", r"functions.\1(", srepr), names | {"functions": functions, "Pow": sympy.Pow}))


def as_in_2_1(program: Any, constants: dict[str, torch.Tensor]) -> Any:
    """Also inputs described by tables of names, facts of tensors one level deeper, and constants within the program."""
    program = as_in_2_5(program, constants)
    program["schema_version"] = 1
    program.pop("verifiers"), program.pop("torch_version")
    module = program["graph_module"]
    specs = [next(iter(spec.items())) for spec in module["signature"]["input_specs"]]
    module["signature"] = {
        "inputs_to_parameters": {s["arg"]["name"]: s["parameter_name"] for kind, s in specs if kind == "parameter"},
        "inputs_to_buffers": {s["arg"]["name"]: s["buffer_name"] for kind, s in specs if kind == "buffer"},
        "user_inputs": [s["arg"]["as_tensor"]["name"] for kind, s in specs if kind == "user_input"],
        "user_outputs": [s["user_output"]["arg"]["as_tensor"]["name"] for s in module["signature"]["output_specs"]],
        "buffers_to_mutate": {},
        "backward_signature": None,
    }
    inside = {s["arg"]["name"]: s["tensor_constant_name"] for kind, s in specs if kind == "tensor_constant"}
    module["graph"]["constants"] = {n: base64.b64encode(saved(constants[field])).decode() for n, field in inside.items()}
    module["graph"]["inputs"] = [i for i in module["graph"]["inputs"] if i["as_tensor"]["name"] not in inside]
    entry = module.pop("module_call_graph")[0]["signature"]
    module["call_spec"] = {"in_spec": entry["in_spec"], "out_spec": entry["out_spec"]}
    tensors = module["graph"]["tensor_values"]
    module["graph"]["tensor_values"] = {name: {"val": None, "meta": meta} for name, meta in tensors.items()}
    return program
