"""Since when a rank is late, or until when it was, by the rollups of long records.

Of many ranks only the last steps are compared step by step. Whether what they show has been so
before shows in the means of neighbouring steps: the comparison is the same, with a row for each
`Cells.steps` steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.analysis.run.ranks.late_span import LateSpan
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits, rank_waits
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.rolled_run import COMPARED_CELLS
from lightning_gpuprof.records.rollup import STRETCH_STEPS
from lightning_gpuprof.records.schema import NOT_MEASURED
from lightning_gpuprof.records.session import Rollup, Session

MIN_CELLS = 100
"""Fewer means do not show since when a rank is late."""
_PER_STRETCH = 8
"""So many cells are as long as a usual stretch, which ranks begin at different steps."""


@dataclass(frozen=True)
class Cells:
    """Neighbouring steps that all ranks have, whose means are compared.

    Args:
        edges: The number of the first step of every cell, and the one behind the last.
        steps: How many step numbers a cell spans.
    """

    edges: Int64
    steps: int


def over_the_run(
    waits: RankWaits | None, ranks: Mapping[int, Session], compared_from: int
) -> RankWaits | None:
    """Return the waits of the last steps with since when a rank is late, or those of a past delay.

    Args:
        waits: How long ranks waited in the last steps.
        ranks: The sessions, with their rollups.
        compared_from: The number of the first step by which `waits` compares ranks.
    """
    rollups = {rank: s.rollup for rank, s in ranks.items() if s.rollup is not None and s.steps}
    cells = _cells(rollups, compared_from)
    if waits is None or cells is None:
        return waits
    means = {rank: _as_steps(ranks[rank], rollup, cells) for rank, rollup in rollups.items()}
    every = np.ones(len(cells.edges) - 1, dtype=np.bool_)
    whole = rank_waits(means, dict.fromkeys(means, every))
    if whole is None or whole.sure_ns is None:
        return waits
    count = int(cells.edges[-1] - cells.edges[0])
    if waits.sure_ns is None:
        was = whole.span is not None and whole.span.until is not None
        return _over(whole, cells) if was else waits
    if waits.span is not None or waits.late != whole.late:
        return waits
    since = None if whole.span is None or whole.span.until is not None else whole.span.since
    if since is None:
        return replace(waits, steps=count if whole.span is None else waits.steps)
    steps = int(cells.edges[-1]) - since
    return replace(waits, span=LateSpan(since, None), steps=steps, steps_frac=steps / count)


def _over(whole: RankWaits, cells: Cells) -> RankWaits:
    """Return waits of a past delay, whose last cell belongs to it to its end."""
    assert whole.span is not None
    assert whole.span.until is not None
    span = LateSpan(whole.span.since, whole.span.until + cells.steps - 1)
    return replace(whole, span=span, steps=whole.steps + cells.steps - 1)


def _cells(rollups: Mapping[int, Rollup], compared_from: int) -> Cells | None:
    """Return the cells of the steps that all ranks have; None if all these are compared anyway."""
    if len(rollups) < 2:
        return None
    first = max(int(rollup.first_step[0]) for rollup in rollups.values())
    last = min(int(rollup.last_step[-1]) for rollup in rollups.values())
    most = max(1, COMPARED_CELLS // len(rollups))
    steps = max(STRETCH_STEPS // _PER_STRETCH, -(-(last + 1 - first) // most))
    count = (last + 1 - first) // steps
    if compared_from <= first or count < MIN_CELLS:
        return None
    return Cells(last + 1 - steps * np.arange(count, -1, -1, dtype=np.int64), steps)


def _as_steps(session: Session, rollup: Rollup, cells: Cells) -> Session:
    """Return a session that has the mean of every cell as a step."""
    ends = rollup.last_step + 1
    known = np.concatenate([rollup.first_step[:1], ends])

    def within(values: Int64) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
        return np.diff(np.interp(cells.edges, known, total))

    steady, marked = within(rollup.steady), within(rollup.marked)
    columns = {"step": cells.edges[:-1], "flags": np.zeros(len(steady), dtype=np.int64)}
    for name, sums in rollup.sums.items():
        on_device = name.startswith("device")
        count = marked if on_device else steady
        mean = within(sums) / np.maximum(count, 1)
        mean[count < 1] = NOT_MEASURED if on_device else 0
        columns[name] = np.rint(mean).astype(np.int64)
    columns["start_ns"] = np.cumsum(columns["dur_ns"]) - columns["dur_ns"]
    return replace(session, columns=columns, rollup=None, rolled=None)
