"""Looks for slow-downs while the steps come in, at next to no cost as long as there is none."""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from lightning_gpuprof.arrays import Floats
from lightning_gpuprof.records.facts import SlowDown, SlowDownShape
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.shifts.slow_down import (
    LEAST_MORE,
    MIN_STEPS,
    find_slow_down,
    is_confirmed,
    is_same,
)
from lightning_gpuprof.shifts.step_rows import COMPARED, StepRows, joined, summed

CHUNK_STEPS, CHUNK_NS = 50, 10_000_000_000
"""Steps are looked at once there are so many, or once they have taken so long. Many are looked at
in pieces of so many."""
MOST_PIECES = 10
"""A window is looked at in so many pieces at most."""
MOST_STEPS = 8_192
"""So many steps are remembered. Of a longer run, every second of the older steps is dropped."""
MOST_CHUNKS = 64
RECENT, RECENT_SPIKES = 3, 8
"""So many chunks must exceed those before them. Spikes may be further apart than a chunk."""
SUSPECT_FRAC = 0.03
"""They exceed them by this share of the step."""
LATER = 1.5
"""After a search that found nothing, the next one waits for so many times as many steps."""
GONE = 0.5
"""A slow-down has ended if less than this share of it is left."""
SPIKES_MISSING = 3


@dataclass(frozen=True)
class _Chunk:
    """The median of each phase in some steps, and by how much its mean exceeds that."""

    medians: Floats
    spilled: Floats


class SlowDownWatch:
    """Receives the steps of a run window by window, and returns slow-downs once they are sure.

    Chunks of steps are represented by the median and the mean of each phase. Only if the last
    chunks exceed the earlier ones are the steps themselves searched, with the function that readers
    of the records use too. Two searches must find the same, one of them without the last steps.

    Attributes:
        current: The slow-down that lasts; None if there is none.
    """

    def __init__(self) -> None:
        self.current: SlowDown | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._rows: list[StepRows] = []
        self._chunks: list[_Chunk] = []
        self._waiting: list[StepRows] = []
        self._steps = self._waiting_steps = self._waiting_ns = 0
        self._search_at = MIN_STEPS
        self._candidate: SlowDown | None = None
        self._gone = 0
        self._last_slow: int | None = None

    def add(self, rows: StepRows) -> SlowDown | None:
        """Add a window of steps. Return a slow-down that is new, or that has ended."""
        self._waiting.append(rows)
        self._waiting_steps += len(rows)
        self._waiting_ns += sum(int(ns.sum()) for ns in rows.phase_ns.values())
        if self._waiting_steps < CHUNK_STEPS and self._waiting_ns < CHUNK_NS:
            return None
        chunk = joined(self._waiting)
        self._waiting, self._waiting_steps, self._waiting_ns = [], 0, 0
        if self.current is not None:
            return self._ended(chunk, self.current)
        self._remember(chunk)
        return self._begun()

    def _remember(self, chunk: StepRows) -> None:
        self._rows.append(chunk)
        self._steps += len(chunk)
        chosen = chunk.chosen(chunk.usual())
        if len(chosen):
            self._chunks.extend(_summaries(chosen))
        if len(self._chunks) > MOST_CHUNKS:
            self._chunks = [*self._chunks[:-RECENT_SPIKES:2], *self._chunks[-RECENT_SPIKES:]]
        if sum(map(len, self._rows)) > MOST_STEPS:
            older = joined(self._rows[: len(self._rows) // 2]).chosen(slice(None, None, 2))
            self._rows = [older, *self._rows[len(self._rows) // 2 :]]

    def _begun(self) -> SlowDown | None:
        if self._steps < self._search_at or not (self._candidate or self._is_suspect()):
            return None
        rows = joined(self._rows)
        before, slow_down = self._candidate, find_slow_down(rows)
        if slow_down is None or not slow_down.lasts:
            self._candidate = None
            self._search_at = round(LATER * self._steps)
            return None
        self._candidate = slow_down
        is_sure = is_confirmed(rows, slow_down) if before is None else is_same(before, slow_down)
        if not is_sure:
            return None
        self.current = slow_down
        self._start_anew()
        return slow_down

    def _is_suspect(self) -> bool:
        return _exceed([chunk.medians for chunk in self._chunks], RECENT) or _exceed_on_average(
            self._chunks, RECENT_SPIKES
        )

    def _ended(self, chunk: StepRows, slow_down: SlowDown) -> SlowDown | None:
        """Return the slow-down with its last step, if it has ended."""
        until = (
            self._last_of_spikes(chunk, slow_down)
            if slow_down.shape is SlowDownShape.SPIKES
            else self._last_of_level(chunk, slow_down)
        )
        if until is None:
            return None
        self.current = None
        self._start_anew()
        return replace(slow_down, until_step=until, noticed_step=int(chunk.steps[-1]))

    def _last_of_level(self, chunk: StepRows, slow_down: SlowDown) -> int | None:
        chosen = chunk.chosen(chunk.usual())
        slow_ns = slow_down.before_ns + GONE * slow_down.more_ns
        pieces = _summaries(chosen) if len(chosen) else []
        ends = np.array_split(chosen.steps, max(1, len(pieces)))
        for piece, steps in zip(pieces, ends, strict=True):
            if piece.medians.sum() >= slow_ns:
                self._gone, self._last_slow = 0, int(steps[-1])
                continue
            self._gone += 1
            if self._gone == RECENT:
                return slow_down.noticed_step if self._last_slow is None else self._last_slow
        return None

    def _last_of_spikes(self, chunk: StepRows, slow_down: SlowDown) -> int | None:
        every, least_ns = slow_down.every_steps or 1, GONE * (slow_down.height_ns or 0)
        phases = COMPARED if slow_down.phase is None else (Phase(slow_down.phase),)
        ns = summed(chunk.of(phase) for phase in phases)
        # Of steps that were not timed by phase, the long ones are known.
        high = np.concatenate(
            [
                chunk.steps[ns - np.median(ns) > least_ns],
                chunk.long_steps[chunk.long_ns - slow_down.before_ns > least_ns],
            ]
        )
        if len(high):
            self._last_slow = int(high.max())
        last = slow_down.noticed_step if self._last_slow is None else self._last_slow
        return last if int(chunk.steps[-1]) - last > SPIKES_MISSING * every else None


def _summaries(rows: StepRows) -> list[_Chunk]:
    """Return the medians of all phases, by `COMPARED`, and what the means exceed them by."""
    pieces = max(1, min(MOST_PIECES, len(rows) // CHUNK_STEPS))
    length = len(rows) // pieces
    columns = [rows.of(phase)[-pieces * length :] for phase in COMPARED]
    times = np.array(columns).reshape(len(columns), pieces, length)
    middle = length // 2
    medians = np.partition(times, middle, axis=2)[:, :, middle].astype(np.float64)
    spilled = times.mean(axis=2) - medians
    return [_Chunk(medians[:, piece], spilled[:, piece]) for piece in range(pieces)]


def _exceed(series: list[Floats], recent: int) -> bool:
    """Return whether the last of a series all exceed the usual one before, in any phase.

    That is the first quartile: many of those before may be slow already.
    """
    if len(series) < 2 * recent:
        return False
    before, last = np.array(series[:-recent]), np.array(series[-recent:])
    place = len(before) // 4
    usual = np.partition(before, place, axis=0)[place]
    return bool((last.min(axis=0) > usual + SUSPECT_FRAC * float(usual.sum())).any())


def _exceed_on_average(chunks: list[_Chunk], recent: int) -> bool:
    """Return whether means exceed medians by more lately than before, in any phase."""
    if len(chunks) < recent // 2 + RECENT:
        return False
    recent = min(recent, len(chunks) - RECENT)
    spilled = np.array([chunk.spilled for chunk in chunks])
    more = spilled[-recent:].mean(axis=0) - np.median(spilled[:-recent], axis=0)
    return bool((more > LEAST_MORE * float(chunks[-1].medians.sum())).any())
