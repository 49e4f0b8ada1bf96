"""Follows sizes through the Python code of a model while torch.jit.trace records it.

What asks a tensor for a size gets an Integer (see _numbers.py): Python computes with it, and operators of torch get a tensor of
the traced program that holds the number, so the program has the formula and not the size of the sample. What Python decides is
a Condition, and a number that it takes is an Escape (see _watch.py). Contents of tensors that go to Python are in `data`.
"""

from __future__ import annotations

import math
import types
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from lithify import _formula, _places, _torch
from lithify._lists import Elements
from lithify._numbers import NUMBERS, Integer, Real, Shape, Truth, is_number, number
from lithify._watch import Followed, Level, Watch


@dataclass(frozen=True)
class Question:
    """A question about contents of tensors whose outcome Python asked for."""

    key: str  # no other question of the run has it, and it is the same in every run that comes to it
    code: types.CodeType | None  # of the function that asked
    instruction: int  # of it
    text: str  # as in `data`

    @property
    def place(self) -> tuple[types.CodeType | None, int]:
        return self.code, self.instruction


@dataclass
class Known:
    """What is known of a run before it begins."""

    numbers: Sequence[Any] = ()  # of each input: the number that it was given as, or None
    axes: Sequence[Collection[int]] = ()  # of each input: those that are dynamic; empty where that is not known
    outcomes: Mapping[str, bool] = field(default_factory=dict)  # of questions about contents, by key, whatever these are
    checks: set[str] = field(default_factory=set)  # questions that raise at another outcome than that of the run
    idle: set[str] = field(default_factory=set)  # questions whose outcome changes nothing
    texts: set[str] = field(default_factory=set)  # where numbers become texts that change nothing
    hides_tracing: bool = False  # whether code that asks if it is traced is told that it is not


class UsedByPython(BaseException):  # not to be caught by the model
    """A traced program turns an argument that was given as a number into a Python value: it is not an input then."""

    def __init__(self, index: int, where: str) -> None:
        self.index, self.where = index, where


class Stopped(BaseException):  # not to be caught by the model
    """A replay has shown enough."""


class Follower(TorchFunctionMode):
    """The functions of torch while a trace is recorded. An argument that was given as a number, and that Python takes, ends the
    trace. `inverted` is a question about contents that gets the other outcome: a replay, which ends soon after it, unless all
    questions of that place get the other outcome."""

    def __init__(self, level: Level, known: Known, inverted: Question | None = None, everywhere: bool = False) -> None:
        super().__init__()
        self.watch = Watch(level, self._asked, known.texts)
        self.data: list[str] = []  # where contents go to Python
        self.questions: list[Question] = []
        self._times_asked: Counter[str] = Counter()  # by text
        self.since_inverted: int | None = None  # how many functions were called after the inverted question
        self.calls, self.most_calls = 0, math.inf  # of functions; a replay may not end
        self.origins = _torch.Origins(known.axes)
        self._answers = answers(level)
        self.checks: dict[str, None] = {}  # those that were met
        self.asked_tracing = False  # whether the model asked if it is traced
        self._known, self._inverted, self._everywhere = known, inverted, everywhere
        self._shapes: dict[int, Shape] = {}

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _torch.is_tracing():
            return func(*args, **(kwargs or {}))
        self.calls += 1
        if self.since_inverted is not None:
            self._count()
        if self.calls > self.most_calls:
            raise Stopped
        answer, kwargs, state = self._answers.get(func), kwargs or {}, _torch.state()
        try:
            return self.call(func, args, kwargs) if answer is None else answer(self, func, args, kwargs)
        except Exception as error:
            if _torch.resume(state):
                self._raised(_tensors([*args, *kwargs.values()]), error)
            raise

    def _raised(self, tensors: Sequence[torch.Tensor], error: Exception) -> None:
        """An operator did not take its operands. If the model catches that, it knows their sizes; and what they hold, where that
        is why."""
        if isinstance(error, torch.linalg.LinAlgError) or any(not t.is_floating_point() for t in tensors):
            for tensor in tensors:
                self.leaves(tensor, type(error).__name__)
        self.escape_sizes(tensors, type(error).__name__)

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The function itself."""
        found: list[Any] = []
        args = _plain(args, found)
        kwargs = {name: _plain(value, found) for name, value in kwargs.items()}
        if type(func) is types.FunctionType and func.__module__ != "torch._tensor":  # what it does with sizes is not seen
            self.escape_sizes(_tensors(args), func.__name__)
        result = self._substituted(func, args, kwargs, found) if found else func(*args, **kwargs)
        if type(result) is not torch.Tensor and self.watch.level.sizes and _reveals(result) and func not in HARMLESS:
            for tensor in _tensors([*args, *kwargs.values()]):
                self.leaves(tensor, getattr(func, "__name__", "function"))
        return result

    def _substituted(self, func: Any, args: Any, kwargs: Any, found: list[Any]) -> Any:
        """Calls the function with tensors of the program in place of the numbers that are followed. A tensor that no statement
        of the program uses then was used as a number."""
        operands = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
        tensors = {id(n): _like_number(n.tensor(), n, operands) for n in found}
        uses = {key: _torch.uses_of(tensor) for key, tensor in tensors.items()}
        try:
            if isinstance(func, _torch.operator_types):
                raise TypeError  # it would take the tensors for numbers
            result = func(*_filled(args, tensors), **_filled(kwargs, tensors))
        except IndexError:
            _torch.forget_positions()
            raise
        except TypeError:
            numbers = {id(n): _given_up(n) for n in found}
            return func(*_filled(args, numbers), **_filled(kwargs, numbers))
        for n in found:
            if _torch.uses_of(tensors[id(n)]) == uses[id(n)]:
                _given_up(n)
        self.watch.locate(result)
        return result

    # ---- sizes ---------------------------------------------------------------------------------------------------------------

    def shape(self, tensor: torch.Tensor) -> Any:
        """The sizes; plain numbers where they do not depend on the inputs."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        if value is None or _torch.is_constant(value):
            return _torch.sizes_of(tensor)
        shape = self._shapes.get(_torch.key_of(value)) or self._shape_of(value, _torch.sizes_of(tensor))
        if self.watch.level.symbolic and not _places.compares_identity():
            return shape
        return torch.Size(size.taken("size") for size in shape)

    def _shape_of(self, value: _torch.Value, sizes: Sequence[int]) -> Shape:
        of_contents = self.origins.is_size_of_contents(value)
        terms = (_formula.leaf(value, axis, size, of_contents) for axis, size in enumerate(sizes))
        shape = Shape(Integer(self.watch, term) for term in terms)
        self._shapes[_torch.key_of(value)] = shape
        return shape

    def _shape_in(self, value: _torch.Value) -> Shape:
        return self._shapes.get(_torch.key_of(value)) or self._shape_of(value, _torch.sizes_in(value))

    def has_no_ones(self) -> bool:
        """Whether all dynamic dimensions of the inputs have other sizes than 1."""
        inputs = zip(map(_torch.sizes_in, _torch.inputs()), self._known.axes, strict=False)
        return all(size != 1 or not {axis, axis - len(s)} & set(axes) for s, axes in inputs for axis, size in enumerate(s))

    def length(self, tensor: torch.Tensor) -> Any:
        """len(tensor)."""
        shape = self.shape(tensor)
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def first_batch(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The first element of the batch sizes of packed sequences: the number of sequences, since each has at least one step.
        None for any other tensor."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        lengths = _torch.lengths_packed(value) if value is not None else None
        if lengths is None or _torch.is_constant(lengths):
            return None
        return self._shape_in(lengths)[0].tensor().clone()  # type: ignore[no-any-return]

    def escape_sizes(self, tensors: Iterable[torch.Tensor], what: str) -> None:
        """Python may know all sizes of the tensors from here on."""
        for tensor in tensors:
            value = _torch.value_of(tensor)
            for axis, size in enumerate(self.shape(tensor)):
                if is_number(size) and not (value is not None and self.origins.is_fixed(value, axis)):
                    size.taken(what.strip("_"))

    def escape_origins(self, tensor: torch.Tensor, what: str) -> None:
        """Python may know what the tensor holds from here on: the sizes that it is computed from escape."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        for key, axis in self.origins.of(value).sizes if value is not None else ():
            shape = self._shape_in(self.origins.values[key])
            for size in shape if axis is None else [shape[axis]]:
                size.taken(what.strip("_"))

    def number(self, tensor: torch.Tensor) -> Any:
        """What a tensor of one element holds, as a number that is followed; None where that is not possible, and where it does
        not depend on the inputs."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        if value is None or tensor.is_complex() or _torch.sizes_of(tensor).numel() != 1:
            return None
        inputs, sizes = self.origins.of(value)
        if inputs and (not self.watch.level.symbolic or self._are_numbers(inputs)):
            return None
        if not inputs and (not sizes or tensor.is_floating_point()):
            return None
        with _torch.paused(), _torch.without_functions():
            held = tensor.item() if inputs else int(tensor.item())
        of_contents = bool(inputs) or _torch.kind_of(value) in _REDUCTIONS
        term = _formula.leaf(value, None, held, of_contents)
        if of_contents:
            self.watch.settle(term)  # what the tensor holds now
        return number(self.watch, term)

    def depends_on_inputs(self, tensor: torch.Tensor) -> bool:
        """Whether what the tensor holds depends on contents or sizes of inputs."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        return value is not None and any(self.origins.of(value))

    def depends_on_contents(self, tensor: torch.Tensor) -> bool:
        """Whether what the tensor holds, an integer, depends on contents of inputs."""
        value = _torch.value_of(tensor) if self.watch.level.sizes else None
        return value is not None and not tensor.is_floating_point() and bool(self.origins.of(value).inputs)

    # ---- contents ------------------------------------------------------------------------------------------------------------

    def leaves(self, tensor: torch.Tensor, what: str) -> None:
        """What the tensor holds goes to Python, and its sizes too."""
        if self.content(tensor, what) is None:
            self.escape_origins(tensor, what)
        self.escape_sizes([tensor], what)

    def content(self, tensor: torch.Tensor, what: str) -> str | None:
        """Reports that what the tensor holds goes to Python, and returns where. None where it does not depend on contents of
        inputs."""
        value = _torch.value_of(tensor)
        inputs = self.origins.of(value).inputs if value is not None else ()
        if not inputs:
            return None
        what = what.strip("_")
        if self._are_numbers(inputs):
            raise UsedByPython(min(inputs), f"{what} of a number{_places.user_line()}")
        return self.report_data(f"{what} of a tensor")

    def _are_numbers(self, inputs: Iterable[int]) -> bool:
        """Whether the inputs were given as numbers."""
        return all(self._known.numbers[i] is not None for i in inputs)

    def report_data(self, what: str) -> str:
        """Contents go to Python here."""
        text = what + _places.user_line()
        if text not in self.data:
            self.data.append(text)
        return text

    def answer_on_tracing(self) -> bool:
        """The answer for a model that asks whether it is traced."""
        self.asked_tracing = self.asked_tracing or not _places.is_asked_without_effect()
        return not self._known.hides_tracing

    def started_thread(self) -> None:
        """What another thread does is not seen: it may use anything that it was given."""
        self.report_data("use by another thread")
        for value in _torch.inputs():
            for size in self._shape_in(value):
                size.taken("thread")

    def ask(self, tensors: Sequence[torch.Tensor], outcome: bool, what: str) -> bool:
        """Python asks for an outcome that depends on what tensors hold."""
        texts = [self.content(tensor, what) for tensor in tensors]
        text = next((t for t in texts if t is not None), None)
        if text is None:
            for tensor in tensors:
                self.escape_origins(tensor, what)
            return outcome
        return self._asked(text, outcome)[1]

    def _asked(self, text: str, outcome: bool) -> tuple[str | None, bool]:
        """The key of the question, None for one that is no branch, and the outcome to go on with."""
        if text in self._known.checks or _places.only_raises():
            self.checks[text] = None
            return None, outcome
        if text in self._known.idle:
            return None, outcome
        frame = next(_places.frames(), None)
        key = f"{text}, {self._times_asked[text]} before"  # the same line asks again and again
        self._times_asked[text] += 1
        question = Question(key, frame and frame.f_code, frame.f_lasti if frame else 0, text)
        self.questions.append(question)
        outcome = self._known.outcomes.get(key, outcome)
        if self._inverted is not None and self._everywhere:
            return key, outcome != (question.place == self._inverted.place)
        if question == self._inverted:
            self.since_inverted = 0
            return key, not outcome
        return key, outcome

    def _count(self) -> None:
        self.since_inverted = (self.since_inverted or 0) + 1
        if self.since_inverted > MOST_CALLS_OF_A_MESSAGE:
            raise Stopped

    # ---- the end of the run --------------------------------------------------------------------------------------------------

    def results(self) -> list[torch.Tensor]:
        """What the program returns after the outputs of the model: see _watch.Followed."""
        return self.watch.results() if self.watch.level.sizes else []

    def followed(self) -> Followed | None:
        """What is known of sizes outside of the program; None where they were not followed."""
        return self.watch.followed() if self.watch.level.sizes else None

    def inverted(self, question: Question | None, everywhere: bool = False, other_text: int = 0) -> Follower:
        """For a run that differs in the answer to a question, or to all of its place; or in the texts that numbers become."""
        replay = Follower(self.watch.level, self._known, question, everywhere)
        replay.watch.other_text = other_text
        replay.most_calls = 2 * self.calls + MOST_CALLS_OF_A_MESSAGE
        return replay

    def close(self) -> None:
        """Nothing is followed from here on."""
        self._shapes.clear()
        self.watch.close()


# Of tensors that only sizes lead to, as of ones_like(x): nothing is known of their elements.
_REDUCTIONS = {"aten::_is_all_true", "aten::_is_any_true", "aten::all", "aten::any"}
MOST_CALLS_OF_A_MESSAGE = 50  # of functions of torch, between a question and the error that it leads to


# ---- arguments ---------------------------------------------------------------------------------------------------------------


def _plain(value: Any, found: list[Any]) -> Any:
    """The value with plain containers. The numbers in it that are followed are added to `found`."""
    kind = type(value)
    if kind is torch.Tensor:
        return value
    if kind is Integer or kind is Real or kind is Truth:
        if not value.watch.is_open:
            return value.value
        found.append(value)
        return value
    if kind is tuple or kind is list:
        return kind(_plain(v, found) for v in value)
    if kind is Elements:
        return [_plain(v, found) for v in value]
    if kind is slice:
        return slice(_plain(value.start, found), _plain(value.stop, found), _plain(value.step, found))
    if isinstance(value, tuple) and any(type(v) in NUMBERS for v in value):
        return tuple(_plain(v, found) for v in value)
    return {k: _plain(v, found) for k, v in value.items()} if kind is dict else value


def _filled(value: Any, by_number: dict[int, Any]) -> Any:
    """The value with something else for each number that is followed."""
    kind = type(value)
    if kind is Integer or kind is Real or kind is Truth:
        return by_number[id(value)]
    if kind is tuple or kind is list:
        return kind(_filled(v, by_number) for v in value)
    if kind is slice:
        return slice(*(_filled(v, by_number) for v in (value.start, value.stop, value.step)))
    return {k: _filled(v, by_number) for k, v in value.items()} if kind is dict else value


def _given_up(number: Any) -> Any:
    """The plain number, for a function that takes no other."""
    return bool(number) if type(number) is Truth else number.taken("argument")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, tuple | list) else []


def _like_number(tensor: torch.Tensor, number: Any, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """A tensor for a number among operands. A number of Python does not widen their type, and a tensor without dimensions may."""
    if not operands or type(number) is Truth:
        return tensor
    if type(number) is Real:
        reals = [t for t in operands if t.is_floating_point() or t.is_complex()]
        if any(t.dim() > 0 for t in reals):
            return tensor
        dtype = reals[0].dtype if reals else torch.get_default_dtype()
        return tensor if dtype in (tensor.dtype, torch.complex64, torch.complex128) else tensor.to(dtype)
    whole = [t.dtype for t in operands if not t.is_floating_point() and t.dtype not in (torch.int64, torch.bool)]
    if len(whole) == len(operands) and all(t.dim() == 0 for t in operands):
        return tensor.to(whole[0])
    return tensor


def _reveals(result: Any) -> bool:
    """Whether it is something other than tensors and their properties."""
    if type(result) in (tuple, list, torch.Size):
        result = result[0] if len(result) else None
    return type(result) in (int, float, bool, complex, str)


from lithify._answers import HARMLESS, answers  # noqa: E402
