"""A validator for the part of JSON Schema that docs/lithify.schema.json uses."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.cases import ROOT

SCHEMA = json.loads((ROOT / "docs/lithify.schema.json").read_text())
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
KNOWN = {
    "$ref", "type", "enum", "pattern", "required", "properties", "additionalProperties", "items", "description",
}  # fmt: skip


def is_of(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def validate(value: Any, kind: str) -> None:
    """Raises AssertionError with the path of what does not agree with the definition of that name."""
    _validate(value, SCHEMA["$defs"][kind], kind)


def _validate(value: Any, schema: dict[str, Any], path: str) -> None:
    assert set(schema) <= KNOWN, f"{path}: the validator does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        _validate(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], path)
    if "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        assert any(is_of(value, name) for name in types), f"{path}: {value!r} is not {types}"
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value!r} is not one of {schema['enum']}"
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), f"{path}: {value!r} is not like {schema['pattern']}"
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            _validate(item, schema["items"], f"{path}[{i}]")
    if isinstance(value, dict):
        _validate_object(value, schema, path)


def _validate_object(value: dict[str, Any], schema: dict[str, Any], path: str) -> None:
    missing = set(schema.get("required", ())) - set(value)
    assert not missing, f"{path}: lacks {missing}"
    for key, item in value.items():
        known = schema.get("properties", {}).get(key)
        rest = schema.get("additionalProperties", True)
        if known is not None:
            _validate(item, known, f"{path}.{key}")
        elif isinstance(rest, dict):
            _validate(item, rest, f"{path}.{key}")
        else:
            assert rest, f"{path}: '{key}' is not documented"
