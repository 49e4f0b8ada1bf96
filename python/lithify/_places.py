"""Lines of the user's code: where something happened, and whether a text is only made for a message."""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import functools
import itertools
import linecache
import logging
import os
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch


def _folder(path: Path | str) -> str:
    return f"{Path(path).parent}{os.sep}"


_TORCH, _HERE, _STANDARD = _folder(torch.__file__), _folder(__file__), _folder(os.__file__)
_NUMPY = f"{_folder(_TORCH)}numpy{os.sep}"  # beside torch; it may not be installed
_CALLER = _HERE + "_capture.py"  # its frames call the model
_MESSENGERS = (logging.__file__, warnings.__file__)


def frames() -> Iterator[types.FrameType]:
    """The frames of the model's code and of torch, the innermost first."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _CALLER:
            return
        if not file.startswith(_HERE):
            yield frame
        frame = frame.f_back


def is_of_user(code: types.CodeType) -> bool:
    """Not of torch, numpy or the library of Python."""
    file = code.co_filename
    if file.startswith(_STANDARD):
        return "-packages" in file and not file.startswith((_TORCH, _NUMPY))
    return not file.startswith((_TORCH, _HERE, _NUMPY, "<frozen"))


def place() -> str:
    """The line of the user's code that runs now, as "model.py:12"; of a library where no user's code is on the way."""
    innermost = ""
    for frame in frames():
        at = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if is_of_user(frame.f_code):
            return at
        innermost = innermost or at
    return innermost


def user_line() -> str:
    """Where that is, as the end of a sentence."""
    at = place()
    return f" at {at}" if at else ""


def compares_identity() -> bool:
    """Whether the function that runs has `n is 7`: such a comparison is not seen, and is False for numbers that are followed."""
    code = next((f.f_code for f in frames()), None)
    return code is not None and _has_identity(code)


@functools.lru_cache(maxsize=4096)
def _has_identity(code: types.CodeType) -> bool:
    operators = code.co_code[::2]
    if dis.opmap["IS_OP"] not in operators:
        return False
    at = [
        i for i, op in enumerate(operators) if op == dis.opmap["IS_OP"] and i > 0 and operators[i - 1] == dis.opmap["LOAD_CONST"]
    ]
    return any(type(code.co_consts[code.co_code[2 * i - 1]]) in (int, float) for i in at)


def is_in_and_or(frame: types.FrameType) -> bool:
    """Whether the frame runs a comparison that is an operand of `and` or `or`, but for the last."""
    return frame.f_lasti in _operands_of_and_or(frame.f_code)


@functools.lru_cache(maxsize=4096)
def _operands_of_and_or(code: types.CodeType) -> frozenset[int]:
    """The offsets of such comparisons."""
    all_ = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "TO_BOOL", "NOT_TAKEN")]
    ends = ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP", "COPY")  # the last from Python 3.12 on
    return frozenset(a.offset for a, b in itertools.pairwise(all_) if a.opname == "COMPARE_OP" and b.opname in ends)


def only_raises() -> bool:
    """Whether the condition that is being asked for is one of `if condition: raise` or of an assert."""
    frame = next(frames(), None)
    found = _range(frame) if frame is not None else None
    if frame is None or found is None:
        return False
    for node in reversed(_enclosing(_tree(frame.f_code.co_filename), found[0])):
        if isinstance(node, ast.If | ast.Assert):
            raises = isinstance(node, ast.Assert) or (_is_raise(node.body[0]) and not node.orelse)
            asks = _holds(node.test, found[0]) or found[0] == (node.lineno, node.col_offset)  # `if not x` asks as a whole
            return raises and asks and not any(map(_catches, frames()))
        if isinstance(node, ast.stmt | ast.IfExp | ast.comprehension):
            return False
    return False


def _is_raise(node: ast.stmt) -> bool:
    return isinstance(node, ast.Raise)


def _catches(frame: types.FrameType) -> bool:
    """Whether what is raised in a call of the frame may end there."""
    found = _range(frame)
    chain = _enclosing(_tree(frame.f_code.co_filename), found[0]) if found is not None else []
    handlers = [handler for node in chain if isinstance(node, ast.Try) for handler in node.handlers]
    contexts = [item.context_expr for node in chain if isinstance(node, ast.With) for item in node.items]
    caught = any(not _is_raise(handler.body[-1]) for handler in handlers)
    return found is None or caught or any(_suppresses(context, frame) for context in contexts)


def _suppresses(context: ast.expr, frame: types.FrameType) -> bool:
    """Whether a context is contextlib.suppress."""
    return isinstance(context, ast.Call) and _named(context.func, frame) is contextlib.suppress


def is_for_message() -> bool:
    """Whether the text that is being made only goes to a message: of a raise or an assert, a warning, a log, print. Such a text
    changes nothing that the model computes."""
    first = next(frames(), None)
    return first is not None and (is_logged() or _goes_to_message(first))


def is_in_call_without_result() -> bool:
    """Whether the text that is being made is for a statement that is nothing but a call, such as `check(n > 0, f"not {n}")`. No
    other text of the model can be compared with it."""
    first = next(frames(), None)
    found = _range(first) if first is not None else None
    if first is None or found is None:
        return False
    chain = _enclosing(_tree(first.f_code.co_filename), found[0])
    statement = next((node for node in reversed(chain) if isinstance(node, ast.stmt)), None)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def is_in_key_of_modules() -> bool:
    """Whether the text that is being made is in the key that a ModuleDict is asked for, as in `experts[f"expert_{n}"]`."""
    frame = next((f for f in frames() if is_of_user(f.f_code)), None)
    found = _range(frame) if frame is not None else None
    if frame is None or found is None:
        return False
    for node in reversed(_enclosing(_tree(frame.f_code.co_filename), found[0])):
        if isinstance(node, ast.Subscript):
            kind = type(_value(node.value, frame))
            asks = issubclass(kind, torch.nn.ModuleDict) and kind.__getitem__ is torch.nn.ModuleDict.__getitem__
            return asks and isinstance(node.slice, ast.JoinedStr)
        if not isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Constant):
            return False
    return False


def _value(node: ast.expr, frame: types.FrameType) -> Any:
    """What a variable, or an attribute of a module in one, is."""
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        return getattr(owner, node.attr, None) if isinstance(owner, torch.nn.Module) else None
    return frame.f_locals.get(node.id) if isinstance(node, ast.Name) else None


def is_logged() -> bool:
    """Whether a function that logs or warns runs."""
    return any(frame.f_code.co_filename in _MESSENGERS for frame in frames())


def _goes_to_message(frame: types.FrameType) -> bool:
    found = _range(frame)
    if found is None:
        return False
    at, end = found
    chain = _enclosing(_tree(frame.f_code.co_filename), at)
    for node in reversed(chain):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Assert):
            return node.msg is not None and _holds(node.msg, at)
        if isinstance(node, ast.Call) and (end == (node.end_lineno, node.end_col_offset) or not _holds(node.func, at)):
            function = _named(node.func, frame)
            if _is_message(function):
                return True
            if function not in (str, repr, format):
                return False
        elif isinstance(node, ast.stmt):
            return False
    return False


def is_asked_without_effect() -> bool:
    """Whether the answer to what the running function asks changes nothing that the model computes."""
    frame = next(frames(), None)
    if frame is None:
        return False
    only_logs = not _can_change(frame.f_code, frame.f_globals, frame.f_locals.values()) and _returns_none(frame.f_code)
    return only_logs or _decides_nothing(frame)


def _decides_nothing(frame: types.FrameType) -> bool:
    """Whether what the frame asks stands beside something false, as in `asked() and isinstance(x, Tensor)`, or decides only
    whether a function is called that changes nothing."""
    found = _range(frame)
    for node in reversed(_enclosing(_tree(frame.f_code.co_filename), found[0])) if found is not None else ():
        if found is not None and isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            others = [v for v in node.values if not _holds(v, found[0])]
            if any(isinstance(v, ast.Call) and _is_instance(v, frame) is False for v in others):
                return True
        elif isinstance(node, ast.If):
            return not node.orelse and all(_only_calls(s, frame) for s in node.body)
        elif not isinstance(node, ast.Call | ast.Attribute | ast.Name | ast.UnaryOp | ast.BoolOp):
            return False
    return False


def raises_unless(outcome: bool) -> bool:
    """Whether the running function asks whether to raise, as in `if n > 5: raise ValueError(...)`, and goes on with this outcome
    of a part of that condition, but with no other."""
    frame = next(frames(), None)
    found = _range(frame) if frame is not None else None
    if frame is None or found is None or any(map(_catches, frames())):
        return False
    around = reversed(_enclosing(_tree(frame.f_code.co_filename), found[0]))
    within = dis.opname[frame.f_code.co_code[frame.f_lasti]] == "COMPARE_OP"
    for node in itertools.dropwhile(lambda n: not isinstance(n, ast.expr) or _positions(n) != found, around):
        if within:  # elements of tuples that are compared
            if not outcome or not isinstance(node, ast.Compare):
                return False
            outcome, within = isinstance(node.ops[0], ast.Eq), False
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            outcome = not outcome
        elif isinstance(node, ast.BoolOp):
            if outcome == isinstance(node.op, ast.Or):
                return False
        elif isinstance(node, ast.Assert):
            return outcome and _holds(node.test, found[0])
        elif isinstance(node, ast.If):
            return _holds(node.test, found[0]) and _raises(node.orelse if outcome else node.body)
        elif not isinstance(node, ast.expr) or _positions(node) != found:
            return False
    return False


def calls() -> object:
    """The lines that lead to the running one, and the modules that they are of: the same in each iteration of a loop."""
    return tuple((f.f_code, f.f_lasti, id(f.f_locals.get("self"))) for f in frames())


def _raises(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Raise) and all(isinstance(s, ast.Assign | ast.Expr) for s in block[:-1])


def _is_instance(call: ast.Call, frame: types.FrameType) -> bool | None:
    """The outcome of isinstance(x, C), where x is a variable and C a class. None for other calls."""
    if _named(call.func, frame) is not isinstance or len(call.args) != 2 or not isinstance(call.args[0], ast.Name):
        return None
    name, kinds = call.args[0].id, _named(call.args[1], frame)
    return isinstance(frame.f_locals[name], kinds) if name in frame.f_locals and isinstance(kinds, type) else None


def _only_calls(statement: ast.stmt, frame: types.FrameType) -> bool:
    """Whether a statement is the call of a function that changes nothing, with names and constants as arguments."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not all(isinstance(a, ast.Name | ast.Constant) for a in call.args) or call.keywords:
        return False
    function = _named(call.func, frame)
    arguments = [_named(a, frame) for a in call.args]
    return isinstance(function, types.FunctionType) and not _can_change(function.__code__, function.__globals__, arguments)


def _can_change(code: types.CodeType, names: dict[str, Any], values: Iterable[Any], depth: int = 3) -> bool:
    """Whether a function, or one that it calls, sets more than variables of its own, or has a tensor, module or container that it
    could change. Those that log have none."""
    used = [names[n] for n in code.co_names if n in names]
    if any(isinstance(v, torch.Tensor | torch.nn.Module | list | dict | set) for v in (*values, *used)):
        return True
    if code.co_freevars or not _EFFECTS.isdisjoint(_operations(code)):
        return True
    called = [f for f in used if isinstance(f, types.FunctionType) and f.__code__ is not code]
    return bool(called) and (depth == 0 or any(_can_change(f.__code__, f.__globals__, (), depth - 1) for f in called))


@functools.lru_cache(maxsize=256)
def _operations(code: types.CodeType) -> frozenset[str]:
    return frozenset(step.opname for step in dis.get_instructions(code))


@functools.lru_cache(maxsize=256)
def _returns_none(code: types.CodeType) -> bool:
    before: dis.Instruction | None = None
    for step in dis.get_instructions(code):
        if step.opname == "RETURN_VALUE" and (before is None or before.opname != "LOAD_CONST" or before.argval is not None):
            return False
        if step.opname == "RETURN_CONST" and step.argval is not None:
            return False
        before = step
    return True


_EFFECTS = {
    "STORE_ATTR",
    "STORE_GLOBAL",
    "STORE_SUBSCR",
    "STORE_DEREF",
    "DELETE_ATTR",
    "DELETE_SUBSCR",
    "RAISE_VARARGS",
    "YIELD_VALUE",
}


Position = tuple[int, int]  # line and column


def _range(frame: types.FrameType) -> tuple[Position, Position] | None:
    """Where the code of the instruction that the frame runs begins and ends; known from Python 3.11 on."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None or frame.f_lasti < 0:
        return None
    line, last, begin, end = next(itertools.islice(positions(), frame.f_lasti // 2, None), (None,) * 4)
    return None if line is None or begin is None else ((line, begin), (last, end))


def _positions(node: ast.expr) -> tuple[Position, Position]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _holds(node: ast.AST, at: Position) -> bool:
    begin = getattr(node, "lineno", None)
    if begin is None:
        return True
    return (begin, node.col_offset) <= at < (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=4096)
def _enclosing(tree: ast.AST, at: Position) -> tuple[ast.AST, ...]:
    """The nodes around a position, the innermost last."""
    chain = [tree]
    while True:
        inner = next((child for child in ast.iter_child_nodes(chain[-1]) if hasattr(child, "lineno") and _holds(child, at)), None)
        if inner is None:
            return tuple(chain)
        chain.append(inner)


def _named(node: ast.expr, frame: types.FrameType) -> Any:
    """What a name or an attribute of a module or of a logger is; None for anything else."""
    if isinstance(node, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in scope:
                return scope[node.id]
    if isinstance(node, ast.Attribute):
        if node.attr == "format" and isinstance(node.value, ast.Constant):
            return format
        owner = _named(node.value, frame)
        if isinstance(owner, types.ModuleType | logging.Logger):
            return getattr(owner, node.attr, None)
    return None


def _is_message(function: Any) -> bool:
    if isinstance(getattr(function, "__self__", None), logging.Logger):
        return True
    if isinstance(function, type):
        return issubclass(function, BaseException)
    names = ("_assert", "_check", "_check_value", "_check_type", "_check_index", "_check_not_implemented")
    messages = (print, warnings.warn, *(getattr(torch, name, None) for name in names))
    return function is not None and any(function is message for message in messages)
