"""A figure of two runs, and a run with what its times are divided by."""

from dataclasses import dataclass
from typing import NamedTuple

from lightning_gpuprof.analysis.run.run_results import RunResults


@dataclass(frozen=True)
class Change:
    """A figure of both runs; None for a run that lacks it."""

    name: str
    base: float | None
    new: float | None

    @property
    def diff(self) -> float | None:
        """New minus base; None if a run lacks the figure."""
        return None if self.base is None or self.new is None else self.new - self.base

    @property
    def diff_frac(self) -> float | None:
        """The difference as a fraction of the base; None if that is 0 or a run lacks the figure."""
        return None if self.diff is None or not self.base else self.diff / self.base

    @property
    def shift(self) -> float:
        """New minus base; a run that lacks the figure counts as 0."""
        return (self.new or 0) - (self.base or 0)


class Side(NamedTuple):
    """A run and the divisor of its times: 1, or its batch size if times are per sample."""

    run: RunResults
    divisor: float

    def scaled(self, time_ns: float | None) -> float | None:
        """Divide a time by the divisor; None if it was not measured."""
        return None if time_ns is None else time_ns / self.divisor
