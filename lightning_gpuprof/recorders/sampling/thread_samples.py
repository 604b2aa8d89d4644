"""Counts samples of the training thread: by line in steps, and by line between epochs."""

from collections import Counter
from typing import NamedTuple

from lightning_gpuprof.recorders.sampling.pacing import SampleTiming
from lightning_gpuprof.recorders.sampling.stack_lines import (
    ThreadPlace,
    attribute_sample,
    line_counts,
)
from lightning_gpuprof.recorders.sampling.storage_waits import (
    filesystem_of,
    reads_so_far,
    storage_waits,
)
from lightning_gpuprof.records.lines import ArgumentCount, HostLines, OutsideLines, Reads


class ThreadSample(NamedTuple):
    """A sample of the training thread.

    Args:
        place: Where in the loop it was.
        path: The file that it waited for; None if it did not wait for storage.
        step: The step that was running.
    """

    place: ThreadPlace
    path: str | None = None
    step: int = 0


class ThreadSamples:
    """The samples of a thread so far, of which another thread may make records meanwhile.

    Args:
        native_id: The thread's native id.
    """

    def __init__(self, native_id: int = 0) -> None:
        self._native_id = native_id
        self._places: Counter[ThreadPlace] = Counter()
        self._doubts: Counter[ThreadPlace] = Counter()
        self._outside: Counter[ThreadPlace] = Counter()
        self._arguments: Counter[tuple[str, str]] = Counter()
        self._blocked: Counter[str] = Counter()
        self._before: Reads | None = None
        self._steps: list[int] = []
        self._steps_at: dict[ThreadPlace, list[int]] = {}

    @property
    def count(self) -> int:
        """How many samples were taken in steps."""
        return self._places.total()

    @property
    def outside_count(self) -> int:
        """How many samples were taken between epochs."""
        return self._outside.total()

    def add(self, sample: ThreadSample, timing: SampleTiming) -> None:
        """Count a sample."""
        place, path, step = sample
        if place.outside:
            self._outside[place._replace(instruction=None, argument=None)] += timing.weight
            return
        if not self._places:
            self._before = reads_so_far(self._native_id)
        if place.argument is not None:
            self._arguments[place.phase.value, place.argument] += timing.weight
            place = place._replace(argument=None)
        place, is_doubtful = attribute_sample(place, timing, self._places.total())
        self._places[place] += timing.weight
        self._steps += [step] * timing.weight
        self._steps_at.setdefault(place, []).extend([step] * timing.weight)
        if is_doubtful:
            self._doubts[place] += timing.weight
        if path is not None:
            self._blocked[filesystem_of(path)] += timing.weight

    def in_steps(self) -> HostLines:
        """Return the samples that were taken in steps."""
        doubts, places = self._doubts.copy(), self._places.copy()
        steps, steps_at = tuple(self._steps), dict(self._steps_at)
        waits = storage_waits(self._blocked, self._native_id, self._before)
        return HostLines(
            places.total(),
            line_counts(places, doubts, steps_at),
            _by_phase(places),
            blocked=waits.blocked,
            filesystem=waits.filesystem,
            read=waits.read,
            arguments=tuple(
                ArgumentCount(phase, argument, count)
                for (phase, argument), count in self._arguments.copy().most_common()
            ),
            first_step=steps[0] if steps else None,
            last_step=steps[-1] if steps else None,
            steps=steps,
        )

    def between_epochs(self) -> OutsideLines:
        """Return the samples that were taken between epochs."""
        outside = self._outside.copy()
        return OutsideLines(outside.total(), line_counts(outside, Counter()), _by_phase(outside))


def _by_phase(places: Counter[ThreadPlace]) -> dict[str, int]:
    """Return how many samples there are by phase."""
    by_phase = Counter[str]()
    for place, count in places.items():
        by_phase[place.phase.value] += count
    return dict(by_phase)
