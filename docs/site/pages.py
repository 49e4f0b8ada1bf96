"""Pages of the site that are made from other files: the README and its neighbors, a page for each code, and the references."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FROM_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
CODE = re.compile(r"^## (LTH\d+)\n\n(.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def linked(text: str) -> str:
    """The text with links between pages of the site. Links to other files of the repository become their names."""

    def target(match: re.Match[str]) -> str:
        label, path, anchor = match[1], match[2].removeprefix("../").removeprefix("./"), match[3] or ""
        page = FROM_ROOT.get(path) or path.removeprefix("docs/")
        if page.endswith((".hpp", ".h")):
            return f"[{label}](reference/cpp.md)"
        in_site = page in FROM_ROOT.values() or (ROOT / "docs" / page).is_file()
        return f"[{label}]({page}{anchor})" if in_site else label

    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)", target, text)


def codes(text: str) -> dict[str, str]:
    """A page for each section of docs/codes.md, and the table of them in the place of the page itself."""
    found = CODE.findall(text)
    pages = {f"codes/{code}.md": f"# {code}: {meaning}\n{body.replace('](', '](../')}" for code, meaning, body in found}
    rows = "".join(f"| [{code}](codes/{code}.md) | {meaning} |\n" for code, meaning, _ in found)
    return pages | {"codes.md": f"{text[: text.index('## ')]}| code | meaning |\n|---|---|\n{rows}"}


def python_reference() -> str:
    """Signatures and docstrings of what the package exports, functions first."""
    package = ROOT / "python" / "lithify"
    defined = definitions(package)
    names = set(strings_of((package / "__init__.py").read_text(), "__all__"))
    functions = [n for n in sorted(names) if isinstance(defined.get(n), ast.FunctionDef)]
    classes = [n for n in sorted(names) if isinstance(defined.get(n), ast.ClassDef)]
    text = "# Python reference\n\n" + "".join(entry(f"lithify.{n}", defined[n]) for n in functions)
    text += entry("lithify.llm.export", definitions(package / "llm")["export"])
    return text + "".join(entry(f"lithify.{n}", defined[n]) for n in classes)


def definitions(package: Path) -> dict[str, ast.stmt]:
    """The functions and classes of a package, by name."""
    nodes = [n for file in sorted(package.glob("*.py*")) if file.is_file() for n in ast.parse(file.read_text()).body]
    return {n.name: n for n in reversed(nodes) if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def strings_of(source: str, name: str) -> list[str]:
    """The list of strings that a variable is."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return list(ast.literal_eval(node.value))
    return []


def parameters(args: ast.arguments) -> list[str]:
    given = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(given) - len(args.defaults)) + list(args.defaults)
    pairs: list[tuple[ast.arg, ast.expr | None]] = [*zip(given, defaults, strict=True)]
    named = [*zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    shown = [ast.unparse(a) + (f" = {ast.unparse(d)}" if d is not None else "") for a, d in pairs if a.arg != "self"]
    rest = [f"*{ast.unparse(args.vararg)}"] if args.vararg else ["*"] if named else []
    rest += [ast.unparse(a) + (f" = {ast.unparse(d)}" if d is not None else "") for a, d in named]
    return shown + rest + ([f"**{ast.unparse(args.kwarg)}"] if args.kwarg else [])


def entry(name: str, node: ast.stmt, level: int = 2) -> str:
    text = f"{'#' * level} {name}\n\n"
    if isinstance(node, ast.FunctionDef):
        listed = "".join(f"\n    {p}," for p in parameters(node.args))
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        text += f"```python\n{name}({listed}{listed and chr(10)}){returns}\n```\n\n"
    doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    text += f"```text\n{doc}\n```\n\n" if doc else ""
    if isinstance(node, ast.ClassDef):
        members = [m for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("_") and ast.get_docstring(m)]
        text += "".join(entry(f"{name}.{m.name}", m, level + 1) for m in members)
    return text


def cpp_reference() -> str:
    """The public headers, which read as documentation."""
    text = "# C and C++ reference\n\nThe public headers. [Export from C++](../cpp.md) has examples.\n\n"
    for name, language in (("lithify.hpp", "cpp"), ("torch.hpp", "cpp"), ("capture.hpp", "cpp"), ("lithify.h", "c")):
        header = (ROOT / "include" / "lithify" / name).read_text()
        text += f"## {name}\n\n```{language}\n{header}\n```\n\n"
    return text


def on_files(files: Files, config: Any) -> Files:
    pages = {page: linked((ROOT / file).read_text()) for file, page in FROM_ROOT.items()}
    for file in [f for f in files if f.src_uri.endswith(".md") and f.src_uri not in pages]:
        pages[file.src_uri] = linked(Path(file.abs_src_path).read_text())
        files.remove(file)
    pages |= codes(pages["codes.md"])
    pages |= {"reference/python.md": python_reference(), "reference/cpp.md": cpp_reference()}
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files
