"""A call of a torch function, as those see it that follow what becomes of its results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from lightning_gpuprof.probes.stacks.stack_lines import Place

_T = TypeVar("_T")


class OnData(NamedTuple):
    """A function that was given data, and whose result is a tensor."""

    name: str
    args: Any
    kwargs: Any
    given: Sequence[Tensor]
    """The tensors among its arguments."""
    result: Tensor
    taken_ns: int
    place: Place | None
    """The program's line that called it."""

    def argument(self, key: str, at: int, usual: Any) -> Any:
        """Return an argument by its name or its position; `usual` where it was not given."""
        return self.kwargs.get(key, self.args[at] if len(self.args) > at else usual)

    def add_place(self, places: list[Place]) -> None:
        """Add the line to those of what the function is a part of."""
        if self.place is not None and self.place not in places:
            places.append(self.place)


def followed(given: Iterable[Any], known: Mapping[Tensor, _T]) -> Iterator[_T]:
    """Yield what is known of those arguments that are tensors which are followed."""
    for one in given:
        if isinstance(one, Tensor) and one in known:
            yield known[one]
