"""A model is left as it was: what a run of it changes or fills in is put back.

A snapshot has what is reachable from the model: the attributes of every module and of the objects that they hold, containers by
their contents, tensors by their memory, and the caches that the model's code keeps outside of it, in classes, in global variables
and in functools.lru_cache. So no traced tensor, FakeTensor or symbolic size stays in a model after a capture.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from lithify._errors import ExportError

MOST = 100_000  # entries of attributes and containers that are looked at; those nearest to the model come first
MOST_FUNCTIONS = 1_000  # of the model's code that are searched for caches
COPIED = 1 << 20  # bytes of parameters that are copied in case that the model writes to them; the smallest come first

_GONE = object()
_NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
_ATOMS = (type(None), *_NUMBERS, str, bytes, torch.dtype, torch.device)
_CONTAINERS = (dict, list, set, deque)
_ENTRIES = ("forward", "__call__", "__getattr__", "__getattribute__")  # methods that run without being named
_PLAIN = {OrderedDict, *_CONTAINERS}
_DATA = (*_ATOMS, *_CONTAINERS, tuple, frozenset, torch.Tensor)
_Cached = type(functools.lru_cache(lambda: None))


@dataclass
class Changes:
    """What runs changed, and how to put it back before the next."""

    reset: Callable[[], None]
    names: list[str] = field(default_factory=list)  # of attributes and variables; known once all is put back


@contextlib.contextmanager
def undisturbed(module: nn.Module | None, training: bool | None, call: Any = None) -> Iterator[Changes]:
    """Sets the training flags (None: leaves them), and puts the model and the random state back at the end; also what `call`
    keeps, if something else than the module is called. Raises ExportError where a run wrote to parameters that are too large to
    be copied."""
    modules = list(module.modules()) if module is not None else []
    devices = sorted({t.device.index for m in modules for t in m._parameters.values() if t is not None and t.is_cuda})
    before, random_state = _Snapshot(modules, call), torch.get_rng_state()

    def reset() -> None:
        before.restore()
        _set_mode(modules, training)
        torch.set_rng_state(random_state)

    changes = Changes(reset)
    try:
        with torch.random.fork_rng(devices=devices), _python_random(), _mode(modules, training):
            yield changes
    except BaseException:
        before.restore()
        raise
    changes.names = before.changed()
    written = before.restore()
    if written and module is not None:
        names = [name for name, t in module.named_parameters() if any(t is w for w in written)]
        raise ExportError(f"the model writes to its parameters when it runs, and they cannot be put back: {', '.join(names)}")


@contextlib.contextmanager
def _mode(modules: Sequence[nn.Module], training: bool | None) -> Iterator[None]:
    """Sets the training flags, and puts them back; those of TorchScript are not among the attributes in Python."""
    flags = [(m, m.training) for m in modules]
    _set_mode(modules, training)
    try:
        yield
    finally:
        for m, flag in flags:
            if m.training != flag:
                m.training = flag


def _set_mode(modules: Sequence[nn.Module], training: bool | None) -> None:
    for m in modules if training is not None else ():
        if m.training != training:
            m.training = bool(training)


@contextlib.contextmanager
def _python_random() -> Iterator[None]:
    """Puts back the random state of Python, and that of numpy if it is in use."""
    numpy = sys.modules.get("numpy")
    state, of_numpy = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(of_numpy)


class _Snapshot:
    """What is reachable from the modules, as it is when this is made."""

    def __init__(self, modules: Sequence[nn.Module], call: Any = None) -> None:
        self._seen: set[int] = set()
        self._left = MOST
        self._buffers = {id(m._buffers) for m in modules}  # those of modules, by name
        self._pending: deque[Any] = deque([*modules, call])
        self._objects: list[tuple[Any, type, list[tuple[Any, Any]]]] = []  # with their class and attributes
        self._containers: list[tuple[Any, list[Any]]] = []
        self._empty: list[Any] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, int]] = []  # with an alias of the memory, and the version
        self._cells: list[tuple[CellType, Any]] = []
        self._states: list[tuple[Callable[[Any], Any], Any]] = []  # of generators of random numbers
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._names: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}  # global variables
        self._caches: dict[int, tuple[Any, int]] = {}
        self._visitors: dict[type, Callable[[Any], None] | None] = {}
        self._add_code({type(m) for m in modules}, getattr(call, "__func__", call))
        while self._pending and self._left > 0:
            self._visit(self._pending.popleft())
        self._contents = self._copied()

    # ---- what is there ----------------------------------------------------------------------------------------------

    def _visit(self, value: Any) -> None:
        kind = type(value)
        if kind not in self._visitors:
            self._visitors[kind] = self._visitor(kind)
        visitor = self._visitors[kind]
        if visitor is not None and id(value) not in self._seen:
            self._seen.add(id(value))
            visitor(value)

    def _visitor(self, kind: type) -> Callable[[Any], None] | None:
        """What notes a value of this type; None where there is nothing to put back."""
        visitors: list[tuple[Any, Callable[[Any], None] | None]] = [
            ((*_ATOMS, type, ModuleType), None),
            (torch.Tensor, self._add_tensor),
            (torch.jit.ScriptModule, lambda module: self._follow(module.buffers(recurse=False))),
            ((tuple, frozenset), self._follow),
            (_CONTAINERS, self._add_container if _is_foreign(kind) else self._add_object),
            (FunctionType, self._add_function),
            (MethodType, lambda method: self._follow((method.__self__, method.__func__))),
            (functools.partial, lambda partial: self._follow((partial.func, *partial.args, *partial.keywords.values()))),
            (_Cached, self._add_cache),
            (torch.Generator, lambda generator: self._states.append((generator.set_state, generator.get_state()))),
            (random.Random, lambda generator: self._states.append((generator.setstate, generator.getstate()))),
            ((nn.Module, SimpleNamespace), self._add_object),
        ]
        for bases, visitor in visitors:
            if issubclass(kind, bases):
                return visitor
        return None if _is_foreign(kind) and not kind.__module__.startswith("torch.nn.") else self._add_object

    def _follow(self, values: Iterable[Any]) -> None:
        visitors, pending, empty = self._visitors, self._pending, self._empty
        for value in values:
            kind = type(value)
            if kind in _PLAIN and not value:  # most of them: a module has a dozen tables of hooks
                empty.append(value)
            elif visitors.get(kind, _GONE) is not None:
                pending.append(value)
                self._left -= 1

    def _add_object(self, value: Any) -> None:
        attributes = getattr(value, "__dict__", None)
        if type(attributes) is dict:
            self._objects.append((value, type(value), list(attributes.items())))
            self._follow(attributes.values())
        if isinstance(value, _CONTAINERS):
            self._add_container(value)

    def _add_container(self, value: Any) -> None:
        if len(value) <= self._left:
            self._containers.append((value, _items(value)))
            self._follow(value.values() if isinstance(value, dict) else value)

    def _add_function(self, function: FunctionType) -> None:
        if function.__dict__:
            self._add_container(function.__dict__)
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                self._cells.append((cell, cell.cell_contents))
                self._follow((cell.cell_contents,))

    def _add_cache(self, cached: Any) -> None:
        self._caches[id(cached)] = cached, cached.cache_info().currsize

    def _add_tensor(self, tensor: torch.Tensor) -> None:
        """One that is memory and strides; there is nothing to put back in others."""
        plain = type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer) and tensor.layout == torch.strided
        if plain and not tensor.is_meta:
            self._tensors.append((tensor, tensor.detach(), -1 if tensor.is_inference() else tensor._version))

    def _copied(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """Of each memory: a tensor on it, its bytes, and a copy, but for parameters that are too large."""
        memory: dict[int, tuple[bool, torch.Tensor, torch.Tensor]] = {}
        for tensor, alias, _ in self._tensors:
            is_parameter = isinstance(tensor, nn.Parameter)
            known = memory.get(alias.untyped_storage().data_ptr())
            if known is None or (is_parameter and not known[0]):
                memory[alias.untyped_storage().data_ptr()] = is_parameter, tensor, alias
        out: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        budget = COPIED
        for is_parameter, tensor, alias in sorted(memory.values(), key=lambda m: m[2].untyped_storage().nbytes()):
            storage = alias.untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=alias.device).set_(storage)  # type: ignore[call-overload]
            budget -= storage.nbytes() if is_parameter else 0
            out.append((tensor, whole, whole.clone() if not is_parameter or budget >= 0 else None))
        return out

    # ---- what the model's code keeps elsewhere ------------------------------------------------------------------------

    def _add_code(self, classes: Iterable[type], call: Any) -> None:
        """The attributes of the classes, and the global variables that their code names: that of forward and `call`, and of the
        methods and functions that it names in turn."""
        bases = dict.fromkeys(base for kind in classes for base in kind.__mro__ if not _is_foreign(base))
        methods: dict[str, list[Any]] = {}
        for base in bases:
            self._classes.append((base, {name: value for name, value in vars(base).items() if _is_data(name, value)}))
            for name, value in vars(base).items():
                methods.setdefault(name, []).append(value)
        functions: deque[FunctionType] = deque()
        searched: set[CodeType] = set()
        for value in (call, *(v for name in _ENTRIES for v in methods.pop(name, ()))):
            self._add_global(value, functions)
        while functions and len(searched) < MOST_FUNCTIONS:
            function = functions.popleft()
            if function.__code__ not in searched:
                searched.add(function.__code__)
                self._add_globals(function, methods, functions)

    def _add_globals(self, function: FunctionType, methods: dict[str, list[Any]], functions: deque[FunctionType]) -> None:
        names = _names(function.__code__)
        spaces = [function.__globals__]
        spaces += [vars(m) for name in names if _is_own_module(m := function.__globals__.get(name))]
        for name in names:
            for value in methods.pop(name, ()):
                self._add_global(value, functions)
            for space in spaces:
                if name in space and (id(space), name) not in self._names:
                    self._names[id(space), name] = space, name, space[name]
                    self._add_global(space[name], functions)
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):
                self._add_global(cell.cell_contents, functions)

    def _add_global(self, value: Any, functions: deque[FunctionType]) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if isinstance(value, _CONTAINERS):
            self._pending.append(value)
        elif isinstance(value, _Cached):
            self._visit(value)
            value = getattr(value, "__wrapped__", None)
        if isinstance(value, FunctionType) and not _is_foreign(value):
            functions.append(value)
            self._pending.append(value)

    # ---- what has changed ---------------------------------------------------------------------------------------------

    def changed(self) -> list[str]:
        """The names of attributes and variables that have another number or tensor than before. Buffers that keep their sizes are
        not among them: the captured program shows what is written to them."""
        found: list[str] = []
        versions = {id(tensor): version for tensor, _, version in self._tensors}
        lists: dict[int, str] = {}

        def compare(before: Iterable[tuple[Any, Any]], now: Mapping[Any, Any], are_buffers: bool = False) -> None:
            for name, old in before:
                if type(old) in _NUMBERS:
                    is_other = _is_other(old, now.get(name))
                elif isinstance(old, torch.Tensor):
                    is_other = _is_other_tensor(old, now.get(name), None if are_buffers else versions.get(id(old)))
                else:
                    lists[id(old)] = str(name)
                    continue
                if is_other:
                    found.append(str(name))

        for owner, _, attributes in self._objects:
            compare(attributes, vars(owner))
        for container, items in self._containers:
            if isinstance(container, dict):
                compare(items, container, id(container) in self._buffers)
        for kind, data in self._classes:
            compare(data.items(), vars(kind))
        for space, name, value in self._names.values():
            compare([(name, value)], space)
        for cell, contents in self._cells:
            compare([("a variable of a function", contents)], {"a variable of a function": cell.cell_contents})
        for container, items in [*self._containers, *((c, []) for c in self._empty)]:
            if isinstance(container, list | deque) and _differ(container, items) and _has_tensor([*items, *container]):
                found.append(lists.get(id(container), "a list"))
        return list(dict.fromkeys(found))

    # ---- putting it back ----------------------------------------------------------------------------------------------

    def restore(self) -> list[torch.Tensor]:
        """Returns the tensors that were written to and cannot be put back."""
        for value, kind, attributes in self._objects:
            if type(value) is kind and _differ(vars(value), attributes):  # a lazy module has become another
                _refill(vars(value), attributes)
        for container, items in self._containers:
            if _differ(container, items):
                _refill(container, items)
        for container in self._empty:
            if container:
                container.clear()
        for cell, contents in self._cells:
            cell.cell_contents = contents
        for kind, data in self._classes:
            _restore_class(kind, data)
        for space, name, value in self._names.values():
            if space.get(name, _GONE) is not value and isinstance(value, _DATA):
                space[name] = value
        for cached, size in self._caches.values():
            if cached.cache_info().currsize != size:
                cached.cache_clear()
        for restore, state in self._states:
            restore(state)
        return self._restore_tensors()

    def _restore_tensors(self) -> list[torch.Tensor]:
        with torch.no_grad():
            for tensor, alias, _ in self._tensors:
                moved = not isinstance(tensor, nn.parameter.UninitializedTensorMixin) and (
                    tensor.data_ptr() != alias.data_ptr() or tensor.size() != alias.size() or tensor.stride() != alias.stride()
                )
                if moved:
                    tensor.data = alias
            for _, whole, copy in self._contents:
                if copy is not None and not torch.equal(whole, copy):
                    whole.copy_(copy)
        versions = {id(tensor): version for tensor, _, version in self._tensors}
        return [t for t, _, copy in self._contents if copy is None and t._version != versions[id(t)]]


def _is_other(old: Any, new: Any) -> bool:
    """Whether a number is another than before, and no size of the run."""
    return type(new) in (bool, int, float, complex) and bool(old != new)


def _is_other_tensor(old: torch.Tensor, new: Any, version: int | None) -> bool:
    """Whether there is another tensor, or the same one was written to since it had the version. Without a version, what counts is
    whether a tensor of the same type and sizes is there."""
    if not isinstance(new, torch.Tensor):
        return False
    if version is None:
        return new.shape != old.shape or new.dtype != old.dtype
    return new is not old or (version >= 0 and new._version != version)


def _has_tensor(items: Iterable[Any]) -> bool:
    return any(isinstance(item, torch.Tensor) for item in items)


def _items(container: Any) -> list[Any]:
    return list(container.items() if isinstance(container, dict) else container)


def _differ(container: Any, before: list[Any]) -> bool:
    """Whether the items are others, or in another order."""
    if len(container) != len(before):
        return True
    if isinstance(container, dict):
        return any(a is not b or v is not w for (a, v), (b, w) in zip(container.items(), before, strict=True))
    return any(a is not b for a, b in zip(container, before, strict=True))


def _refill(container: Any, items: list[Any]) -> None:
    """By the methods of the plain type: those of a class derived from it may do more."""
    if isinstance(container, dict):
        plain = OrderedDict if isinstance(container, OrderedDict) else dict
        plain.clear(container)
        for key, value in items:
            plain.__setitem__(container, key, value)
    elif isinstance(container, list):
        list.__setitem__(container, slice(None), items)
    elif isinstance(container, set):
        set.clear(container)
        set.update(container, items)
    else:
        deque.clear(container)
        deque.extend(container, items)


def _restore_class(kind: type, data: dict[str, Any]) -> None:
    for name, value in list(vars(kind).items()):
        if name not in data and _is_data(name, value):
            delattr(kind, name)
    for name, value in data.items():
        if vars(kind).get(name, _GONE) is not value:
            setattr(kind, name, value)


def _is_data(name: str, value: Any) -> bool:
    return isinstance(value, _DATA) and not name.startswith("__")


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[str, ...]:
    """The names that the code and the functions in it use, other than local variables."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


def _is_foreign(owner: Any) -> bool:
    """Whether a class or function is of the standard library or of torch, and keeps nothing of a model."""
    name = getattr(owner, "__module__", None) or ""
    return name.partition(".")[0] in _LIBRARIES


def _is_own_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in _LIBRARIES


_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {"torch", "numpy", "lithify"}
