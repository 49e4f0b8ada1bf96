"""Writes src/onnx/kernels.def: the element types that ONNX Runtime's CPU kernels take, from the runtime itself.

Run it with the runtime that the table shall be of:  .venv/bin/python scripts/kernels.py
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

OPSETS = range(9, 27)
UNBOUNDED = 2**31 - 1
# The numbers of TensorProto.DataType, for the types that PyTorch has.
NUMBERS = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
NUMBERS |= {"double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}
REAL = {NUMBERS[name] for name in ("float", "float16", "double", "bfloat16")}
# Kernels that are registered for a type and refuse it when they run.
REFUSED = {"LSTM": {NUMBERS["double"]}, "GRU": {NUMBERS["double"]}}
# Kernels whose inputs have one type, where the operator allows several.
OF_ONE_TYPE = {"GridSample"}


def numbers(types: list[str]) -> set[int]:
    names = [t.removeprefix("tensor(").removesuffix(")") for t in types if t.startswith("tensor(")]
    return {NUMBERS[n] for n in names if n in NUMBERS}


def mask_of(variables: set[str], parameters: list) -> int:
    """Bit i: parameter i has the type; a variadic one stands for all that follow."""
    mask = 0
    for i, p in enumerate(parameters):
        if p.type_str in variables:
            mask |= 1 << i
            if p.option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
                mask |= (1 << 64) - (1 << i)
    return mask


def serves(versions: tuple[int, int], since: int) -> bool:
    """A kernel without a last version serves the one that it was written for, and no later one."""
    first, last = versions
    return first == since or first < since <= last != UNBOUNDED


def row(name: str, opset: int, kernels: list) -> tuple[int, int, int] | None:
    """Types that have a kernel, and the inputs and outputs of that type; None where there is nothing to choose."""
    try:
        schema = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return None
    variables = {c.type_param_str: numbers(c.allowed_type_strs) for c in schema.type_constraints}
    variable = "T" if "T" in variables else schema.inputs[0].type_str if schema.inputs else ""
    allowed = variables.get(variable, set())
    taken: set[int] = set()
    matching = [k for k in kernels if serves(k.version_range, schema.since_version)]
    for k in matching:
        types = k.type_constraints.get(variable)
        taken |= allowed & numbers(types) if types else allowed
    # The runtime itself computes half precision in float32 where it has no kernel.
    taken |= allowed & {NUMBERS["float16"]}
    taken -= REFUSED.get(name, set())
    if not matching or len(allowed) < 2:
        return None
    bits = sum(1 << n for n in taken)
    # Other variables that range over the same real types go along: the statistics of BatchNormalization.
    same = {variable}
    if name in OF_ONE_TYPE:
        same |= set(variables)
    elif allowed <= REAL:
        same |= {v for v, types in variables.items() if types == allowed and v in matching[0].type_constraints}
    return bits, mask_of(same, list(schema.inputs)), mask_of(same, list(schema.outputs))


def main() -> None:
    by_name: dict[str, list] = {}
    for k in runtime.get_all_opkernel_def():
        # A cast is what widening is made of.
        if k.provider == "CPUExecutionProvider" and k.domain == "" and k.op_name != "Cast":
            by_name.setdefault(k.op_name, []).append(k)
    lines = [
        "// The element types that ONNX Runtime's CPU kernels take: operator, first and last opset, bit n for type n of",
        "// TensorProto.DataType, the inputs and outputs that have the type. Written by scripts/kernels.py.",
    ]
    for name in sorted(by_name):
        spans: list[tuple[int, int, tuple[int, int, int]]] = []
        for opset in OPSETS:
            r = row(name, opset, by_name[name])
            if r is None:
                continue
            if spans and spans[-1][1] == opset - 1 and spans[-1][2] == r:
                spans[-1] = (spans[-1][0], opset, r)
            else:
                spans.append((opset, opset, r))
        for first, last, (types, inputs, outputs) in spans:
            lines.append(f'KERNEL("{name}", {first}, {last}, {types:#x}, {inputs:#x}, {outputs:#x})')
    path = Path(__file__).resolve().parent.parent / "src" / "onnx" / "kernels.def"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
