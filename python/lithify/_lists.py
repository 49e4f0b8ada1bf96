"""The lists that tolist() gives to the code of a model while contents are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from lithify._numbers import is_number

if TYPE_CHECKING:
    from lithify._follow import Follower


class Elements(list[Any]):
    """What tensor.tolist() gives. Its items are the pieces of the tensor, as many as there are in this run. What code takes by a
    position, or as the sum or an extremum, is that of the tensor, whatever its length is."""

    def __init__(self, follower: Follower, tensor: torch.Tensor, items: list[Any]) -> None:
        super().__init__(items)
        self._follower, self._tensor, self._items = follower, tensor, items
        self._taken: dict[int, Any] = {}
        self._escaped = False

    def tensor(self) -> torch.Tensor | None:
        """The tensor, if the list is still what it was made as."""
        same = list.__len__(self) == len(self._items) and all(a is b for a, b in zip(self._all(), self._items, strict=True))
        return self._tensor if same else None

    def number(self, reduced: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        """What the tensor is reduced to, as a number; None where that is not possible."""
        tensor = self.tensor()
        return None if tensor is None or tensor.dim() != 1 else self._follower.number(reduced(tensor))

    def __getitem__(self, index: Any) -> Any:
        at = index.value if is_number(index) else index
        known = isinstance(at, int) and -len(self._items) <= at < len(self._items)
        if not known or self.tensor() is None or self._tensor.dim() != 1:
            self._escape()
            return super().__getitem__(index)
        if is_number(index):
            return self._follower.number(self._tensor[index])
        if at not in self._taken:
            self._taken[at] = self._follower.number(self._tensor[at])
        return self._taken[at]

    def __iter__(self) -> Iterator[Any]:
        self._escape()
        return self._all()

    def _all(self) -> Iterator[Any]:
        return super().__iter__()

    def _escape(self) -> None:
        """Python may know how many items there are from here on, also in the lists inside of this one."""
        if not self._escaped:
            self._follower.escape_sizes([self._tensor], "tolist")
            self._mark()

    def _mark(self) -> None:
        self._escaped = True
        for item in self._items:
            if type(item) is Elements:
                item._mark()
