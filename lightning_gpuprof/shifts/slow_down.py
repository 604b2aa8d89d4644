"""Finds the slow-down in the steps of a run: since which step, in which phase, of which shape."""

from collections.abc import Mapping

import numpy as np

from lightning_gpuprof.arrays import Floats
from lightning_gpuprof.records.facts import PhaseShift, SlowDown, SlowDownShape
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.shifts import levels
from lightning_gpuprof.shifts.levels import Change, block_medians
from lightning_gpuprof.shifts.step_rows import COMPARED, StepRows, summed
from lightning_gpuprof.shifts.trains import Train, find_train

MIN_STEPS = levels.BLOCK_STEPS * (levels.MIN_BEFORE + levels.MIN_SINCE)
LEAST_MORE = 0.03
"""A slow-down costs this share of the usual step or more; machines drift by less."""
LEAST_PART = 0.02
"""A phase with a smaller share of the step shows badly how the machine's speed changes."""
LIKE_OTHERS = 0.5
"""The machine gets slower if the other phases rise by this share of the phase's own rise."""
LEAST_CHANGED = 0.1
"""Phases with this share of the whole change are named."""
_REFINE = 3
"""The first step is looked for within so many blocks of the first block."""


def find_slow_down(rows: StepRows) -> SlowDown | None:
    """Return the slow-down in the steps of a run; None if there is none, or none that is sure."""
    usual = rows.chosen(rows.usual())
    if len(usual) < MIN_STEPS:
        return None
    times: dict[Phase, Floats] = {
        phase: ns for phase, ns in usual.by_size().items() if phase in COMPARED
    }
    if not times:
        return None
    candidates = [_lasting(usual, times), _recurring(usual, times)]
    found = [slow_down for slow_down in candidates if slow_down is not None]
    return max(found, key=lambda slow_down: slow_down.more_ns, default=None)


def _lasting(rows: StepRows, times: Mapping[Phase, Floats]) -> SlowDown | None:
    """Return the change at once, or the ramp, that costs most."""
    count = levels.block_count(len(rows))
    medians = {phase: block_medians(ns, count) for phase, ns in times.items()}
    whole = summed(medians.values())
    changes = {phase: levels.find_change(series) for phase, series in medians.items()}
    sure = {phase: change for phase, change in changes.items() if change is not None}
    if not sure:
        return None
    phase, change = max(sure.items(), key=lambda item: item[1].height)
    before = float(np.median(whole[: change.since]))
    if change.height < LEAST_MORE * before:
        return None
    rises = {name: _height(change, series) for name, series in medians.items()}
    if _is_machine(phase, change, rises, medians):
        return None
    return _described(rows, times, medians, phase, change, rises)


def _height(change: Change, series: Floats) -> tuple[float, float]:
    """Return the level of a series before a change, and its height by the change's shape."""
    before = float(np.median(series[: change.since]))
    if not change.rises:
        return before, float(np.median(series[change.since : change.until])) - before
    shape = change.shape(len(series))
    centred = shape - shape.mean()
    return before, float(centred @ series / (centred @ centred))


def _is_machine(
    phase: Phase,
    change: Change,
    rises: Mapping[Phase, tuple[float, float]],
    medians: Mapping[Phase, Floats],
) -> bool:
    """Return whether most other phases rise by about the same share as the phase itself."""
    step = sum(before for before, _ in rises.values())
    own_before, own = rises[phase]
    others = [
        height / before
        for name, (before, height) in rises.items()
        if name is not phase and before >= LEAST_PART * step
    ]
    if not others or own_before < LEAST_PART * step:
        return False
    return float(np.median(others)) >= LIKE_OTHERS * own / own_before


def _described(
    rows: StepRows,
    times: Mapping[Phase, Floats],
    medians: Mapping[Phase, Floats],
    phase: Phase,
    change: Change,
    rises: Mapping[Phase, tuple[float, float]],
) -> SlowDown:
    count = len(medians[phase])
    starts = [int(block[0]) for block in np.array_split(np.arange(len(rows)), count)]
    starts.append(len(rows))
    series = times[phase]
    reach = slice(
        starts[max(0, change.since - _REFINE)], starts[min(count, change.since + _REFINE)]
    )
    if change.rises:
        level = np.repeat(medians[phase], np.diff(starts))
        noise = 1.4826 * float(np.median(np.abs(series - level)))
        clipped = series.clip(level - 2 * noise, level + 2 * noise)
        first = levels.first_of_rise(clipped, rows.steps.astype(np.float64), reach=reach)
    else:
        first = levels.first_step(series, before=change.before, height=change.height, reach=reach)
    until = None
    if change.until < count:
        begin = starts[max(change.since + 1, change.until - _REFINE)]
        end = starts[min(count, change.until + _REFINE)]
        after = levels.last_step(
            series, before=change.before, height=change.height, reach=slice(begin, end)
        )
        until = int(rows.steps[max(first, after - 1)])
    before_ns = sum(before for before, _ in rises.values())
    more_ns = sum(height for _, height in rises.values())
    since = int(rows.steps[first])
    per_100 = None
    if change.rises:
        per_100 = max(0, round(100 * more_ns / max(1, int(rows.steps[-1]) - since)))
    return SlowDown(
        shape=SlowDownShape.RAMP if change.rises else SlowDownShape.STEP,
        since_step=since,
        until_step=until,
        noticed_step=int(rows.steps[-1]),
        before_ns=max(0, round(before_ns)),
        during_ns=max(0, round(before_ns + more_ns)),
        phase=phase.value if 2 * change.height >= more_ns else None,
        per_100_steps_ns=per_100,
        phases=_phases(rises),
    )


def _phases(rises: Mapping[Phase, tuple[float, float]]) -> dict[str, PhaseShift]:
    whole = max(1.0, sum(abs(height) for _, height in rises.values()))
    changed = [item for item in rises.items() if abs(item[1][1]) >= LEAST_CHANGED * whole]
    return {
        phase.value: PhaseShift(max(0, round(before)), max(0, round(before + height)))
        for phase, (before, height) in sorted(changed, key=lambda item: -abs(item[1][1]))
    }


def _recurring(rows: StepRows, times: Mapping[Phase, Floats]) -> SlowDown | None:
    """Return the train of spikes that costs most."""
    usual_ns = float(sum(np.median(ns) for ns in times.values()))
    trains = {phase: find_train(rows.steps, ns, usual_step=usual_ns) for phase, ns in times.items()}
    costs = {
        phase: train.height / train.every for phase, train in trains.items() if train is not None
    }
    if not costs:
        return None
    phase = max(costs, key=costs.__getitem__)
    train = trains[phase]
    assert train is not None
    if costs[phase] < LEAST_MORE * usual_ns:
        return None
    return _of_train(rows, times, phase, train, usual_ns)


def _of_train(
    rows: StepRows, times: Mapping[Phase, Floats], phase: Phase, train: Train, usual_ns: float
) -> SlowDown:
    before_ns = float(np.median(times[phase]))
    more_ns = train.height / train.every
    return SlowDown(
        shape=SlowDownShape.SPIKES,
        since_step=int(rows.steps[train.since]),
        until_step=int(rows.steps[train.until]) if train.ended else None,
        noticed_step=int(rows.steps[-1]),
        before_ns=round(usual_ns),
        during_ns=round(usual_ns + more_ns),
        phase=phase.value,
        every_steps=train.every,
        height_ns=round(train.height),
        phases={phase.value: PhaseShift(round(before_ns), round(before_ns + more_ns))},
    )
