"""Follows results that are written out for each pair of rows or values until little is left."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lightning_gpuprof.probes.looks.on_data import OnData, followed
from lightning_gpuprof.probes.stacks.stack_lines import Place


@dataclass
class WidePair:
    """What was written out, and what it was made into."""

    places: list[Place]
    taken_ns: int
    needed: bool = field(default=False, kw_only=True)
    """Something else was done with it, too."""


class Wide(Protocol):
    """A tensor that holds it, as it is so far."""

    @property
    def pair(self) -> WidePair:
        """What it holds."""
        ...


_W = TypeVar("_W", bound=Wide)


@dataclass
class WideResults(ABC, Generic[_W]):
    """What is written out in one batch; `seen` is told of each function on data."""

    _wide: Any = field(default_factory=WeakIdKeyDictionary, kw_only=True)

    def seen(self, call: OnData) -> None:
        """Note what may be written out, or what becomes of it."""
        sources = [one for one in call.given if one in self._wide]
        if not sources:
            self._begins(call)
            return
        source = sources[0]
        self.used(one for one in sources if one is not source)
        wide: _W = self._wide[source]
        wide.pair.taken_ns += call.taken_ns
        call.add_place(wide.pair.places)
        after = self._after(wide, call) if call.result.shape == source.shape else None
        if after is None:
            self._ends(wide, call, source)
        else:
            self._wide[call.result] = after

    def used(self, given: Iterable[Any]) -> None:
        """Note that something is done with tensors of which no function on data tells."""
        for wide in followed(given, self._wide):
            wide.pair.needed = True

    @abstractmethod
    def _begins(self, call: OnData) -> None:
        """Note what a function of two tensors may have written out."""

    @abstractmethod
    def _after(self, wide: _W, call: OnData) -> _W | None:
        """Return what it is after a function by element; None where it is no more followed."""

    @abstractmethod
    def _ends(self, wide: _W, call: OnData, source: Tensor) -> None:
        """Note what it is made into, or that something else is done with it."""
