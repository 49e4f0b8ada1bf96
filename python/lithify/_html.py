"""The result of an export as a table of a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lithify._export import Result

_STYLE = "text-align:left;vertical-align:top"


def table_of(result: Result) -> str:
    rows = [("input", str(v)) for v in result.inputs] + [("output", str(v)) for v in result.outputs]
    rows += [("size", f"{d.name}: {d}") for d in result.dimensions]
    rows += [("nodes", f"{sum(result.nodes.values())}: " + ", ".join(f"{n} {name}" for name, n in result.nodes.items()))]
    rows += [("weights", f"{result.weights} tensors, {result.weight_bytes:,} bytes")]
    rows += [("capture", f"{result.capture}: {result.why}")]
    rows += [("seconds", ", ".join(f"{stage} {s:.3f}" for stage, s in result.seconds.items()))]
    rows += [("note", n) for n in result.notes] + [(m.severity, str(m)) for m in result.messages]
    cells = "".join(
        f"<tr><th style='{_STYLE}'>{escape(label)}</th><td style='{_STYLE}'><code>{escape(text)}</code></td></tr>"
        for label, text in rows
    )
    title = escape(f"{result.path or 'in memory'} (opset {result.opset})")
    return f"<table><caption>{title}</caption>{cells}</table>"
