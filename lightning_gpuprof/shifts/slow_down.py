"""Finds the slow-down in the steps of a run: since which step, in which phase, of which shape."""

from collections.abc import Mapping

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64
from lightning_gpuprof.records.facts import PhaseShift, SlowDown, SlowDownShape
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.shifts import levels
from lightning_gpuprof.shifts.levels import Blocks, Change
from lightning_gpuprof.shifts.step_rows import COMPARED, StepRows, summed
from lightning_gpuprof.shifts.trains import Train, find_train

MIN_STEPS = levels.BLOCK_STEPS * (levels.MIN_BEFORE + levels.MIN_SINCE)
LEAST_MORE = 0.03
"""A slow-down costs this share of the usual step or more; machines drift by less."""
LEAST_PART = 0.02
"""A phase with a smaller share of the step shows badly how the machine's speed changes."""
LIKE_OTHERS = 0.5
"""The machine gets slower if the other phases rise by this share of the phase's own rise."""
LEAST_OF_MACHINE = 0.5
"""All phases together must take this share longer: for reasons of its own, such as the clock of its
cores and its other tenants, a machine's speed changes by less."""
CROWDED = 2.0
"""Other programs slow training down if it waits for a core so many times as long as before."""
OF_PHASE = 0.6
"""Spikes are those of a phase if they have this share of the spikes of all phases together."""
MOST_EXCESS = 10.0
"""Of a step that takes longer, so many usual steps count."""
MIN_READINGS = 2
"""Readings since other programs began, without which it may be one interruption."""
LEAST_OF_WORKERS = 0.1
"""A wait for worker processes must take this share of the step longer: how far they are ahead of
training changes from epoch to epoch."""
LEAST_CHANGED = 0.1
"""Phases with this share of the whole change are named."""
NEAR_FRAC = 0.2
"""Two searches have found the same slow-down if it begins at the same step, give or take this share
of the steps since then."""


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
    lasting, crowded = _lasting(usual, times), _crowded(usual, times)
    if crowded is not None and lasting is not None and 2 * crowded.more_ns >= lasting.more_ns:
        lasting = None  # the phases take longer because they are interrupted
    recurring = _recurring(usual, times)
    candidates = [lasting, crowded, recurring]
    if crowded is not None and recurring is not None and recurring.more_ns >= crowded.more_ns / 2:
        candidates.remove(crowded)  # other programs that run at regular distances
    confirmed = [
        slow_down
        for slow_down in candidates
        if slow_down is not None and _is_on_device(usual, slow_down)
    ]
    return max(confirmed, key=lambda slow_down: slow_down.more_ns, default=None)


def is_confirmed(rows: StepRows, slow_down: SlowDown) -> bool:
    """Return whether a search without the last third of a slow-down's steps finds the same."""
    last = slow_down.noticed_step - (slow_down.noticed_step - slow_down.since_step) // 3
    earlier = find_slow_down(rows.chosen(rows.steps <= last))
    return earlier is not None and is_same(earlier, slow_down)


def is_same(before: SlowDown, now: SlowDown) -> bool:
    """Return whether two searches have found the same slow-down."""
    if (before.phase, before.shape) != (now.phase, now.shape):
        return False
    since = now.noticed_step - now.since_step
    return abs(before.since_step - now.since_step) <= NEAR_FRAC * since


def _is_on_device(rows: StepRows, slow_down: SlowDown) -> bool:
    """Return whether steps are longer on the device's clock too, if it was read.

    The host of a run that the device holds back runs ahead until the device's queue is full. Only
    its own steps are longer then.
    """
    if rows.device_ns is None:
        return True
    before = rows.steps < slow_down.since_step
    since = rows.steps >= slow_down.since_step
    if slow_down.until_step is not None:
        since &= rows.steps <= slow_down.until_step
    known = rows.device_ns > 0
    before_ns, since_ns = rows.device_ns[known & before], rows.device_ns[known & since]
    if not len(before_ns) or not len(since_ns):
        return True
    return float(since_ns.mean() - before_ns.mean()) >= slow_down.more_ns / 2


def _lasting(rows: StepRows, times: Mapping[Phase, Floats]) -> SlowDown | None:
    """Return the change at once, or the ramp, that costs most."""
    blocks = Blocks.of(len(rows))
    medians = {phase: blocks.medians(ns) for phase, ns in times.items()}
    whole = summed(medians.values())
    offset = LEAST_PART * float(np.median(whole))
    changes = {phase: levels.find_change(series, offset) for phase, series in medians.items()}
    sure = {phase: change for phase, change in changes.items() if change is not None}
    waits = sure.get(Phase.DATA_WAIT)
    if rows.has_workers and waits and waits.height < LEAST_OF_WORKERS * float(np.median(whole)):
        del sure[Phase.DATA_WAIT]
    if not sure:
        return None
    phase, change = max(
        sure.items(), key=lambda item: (item[1].until == blocks.count, item[1].height)
    )
    before = float(np.median(whole[: change.since]))
    if change.height < LEAST_MORE * before:
        return None
    rises = {name: _height(change, series) for name, series in medians.items()}
    more_ns = sum(height for _, height in rises.values())
    of_machine = _is_machine(phase, rises)
    if more_ns < change.height / 2 or (of_machine and more_ns < LEAST_OF_MACHINE * before):
        return None
    return _described(rows, times, blocks, medians, phase, change, rises, of_machine=of_machine)


def _height(change: Change, series: Floats) -> tuple[float, float]:
    """Return the level of a series before a change, and its height by the change's shape."""
    before = float(np.median(series[: change.since]))
    if not change.rises:
        return before, float(np.median(series[change.since : change.until])) - before
    shape = change.shape(len(series))
    centred = shape - shape.mean()
    return before, float(centred @ series / (centred @ centred))


def _is_machine(phase: Phase, rises: Mapping[Phase, tuple[float, float]]) -> bool:
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
    blocks: Blocks,
    medians: Mapping[Phase, Floats],
    phase: Phase,
    change: Change,
    rises: Mapping[Phase, tuple[float, float]],
    *,
    of_machine: bool,
) -> SlowDown:
    series = times[phase]
    first = _first(rows, blocks, series, medians[phase], change)
    until = None
    if change.until < blocks.count:
        reach = blocks.around(change.until, low=change.since + 1)
        after = levels.last_step(series, before=change.before, height=change.height, reach=reach)
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
        phase=phase.value if 2 * change.height >= more_ns and not of_machine else None,
        per_100_steps_ns=per_100,
        phases=_phases(rises),
    )


def _first(rows: StepRows, blocks: Blocks, series: Floats, medians: Floats, change: Change) -> int:
    """Return the index of the first step of a change of a phase."""
    if not change.rises:
        reach = blocks.around(change.since)
        return levels.first_step(series, before=change.before, height=change.height, reach=reach)
    begins, end = levels.beginning_of_rise(medians, change)
    level = blocks.spread(medians)
    noise = levels.noise_of(series - level)
    clipped = series.clip(level - 2 * noise, level + 2 * noise)[: blocks.begin(end)]
    places = rows.steps.astype(np.float64)[: blocks.begin(end)]
    return levels.first_of_rise(clipped, places, reach=blocks.around(begins, high=end - 1))


def _phases(rises: Mapping[Phase, tuple[float, float]]) -> dict[str, PhaseShift]:
    whole = max(1.0, sum(abs(height) for _, height in rises.values()))
    changed = [item for item in rises.items() if abs(item[1][1]) >= LEAST_CHANGED * whole]
    return {
        phase.value: PhaseShift(max(0, round(before)), max(0, round(before + height)))
        for phase, (before, height) in sorted(changed, key=lambda item: -abs(item[1][1]))
    }


def _crowded(rows: StepRows, times: Mapping[Phase, Floats]) -> SlowDown | None:
    """Return the slow-down by other programs on the same cores, which interrupt single steps.

    It shows in how long the training thread waits for a core, and in the means of all phases.
    """
    if rows.queued_ns is None:
        return None
    blocks, whole = Blocks.of(len(rows)), summed(times.values())
    queued = _queued_frac(rows.queued_ns, whole)
    change = levels.best_level(blocks.medians(queued))
    if change is None or not _waits_longer(queued, blocks, change):
        return None
    usual = float(np.median(whole))
    first = _first_crowded(rows, whole, queued, blocks.begin(change.since), usual)
    end = blocks.begin(change.until)
    before_ns, during_ns = float(whole[:first].mean()), float(whole[first:end].mean())
    more_ns = during_ns - before_ns
    # Steps that are longer for another reason wait for a core more often at the same share.
    waited_ns = (
        float(queued[first:end].mean()) * during_ns - float(queued[:first].mean()) * before_ns
    )
    if waited_ns < LEAST_MORE * usual or not waited_ns / 2 <= more_ns <= 2 * waited_ns:
        return None
    means = {
        phase: (float(ns[:first].mean()), float(ns[first:end].mean() - ns[:first].mean()))
        for phase, ns in times.items()
    }
    return SlowDown(
        shape=SlowDownShape.STEP,
        since_step=int(rows.steps[first]),
        until_step=int(rows.steps[end - 1]) if change.until < blocks.count else None,
        noticed_step=int(rows.steps[-1]),
        before_ns=round(before_ns),
        during_ns=round(during_ns),
        phases=_phases(means),
    )


def _queued_frac(queued_ns: Int64, whole: Floats) -> Floats:
    """Return for every step the share of waits for a core between the readings around it."""
    reading = _readings(queued_ns)
    mean_ns = np.bincount(reading, whole) / np.bincount(reading)
    share: Floats = queued_ns / np.maximum(mean_ns[reading], 1.0)
    return share


def _readings(queued: Int64 | Floats) -> Int64:
    """Return for every step the number of the reading of its wait, from 0 on."""
    numbers: Int64 = np.cumsum(np.diff(queued, prepend=queued[0]) != 0)
    return numbers


def _waits_longer(queued: Floats, blocks: Blocks, change: Change) -> bool:
    """Return whether all readings since a change show far longer waits for a core than before."""
    begin, end = blocks.begin(change.since), blocks.begin(change.until)
    before, during = float(queued[:begin].mean()), float(queued[begin:end].mean())
    readings = len(np.unique(_readings(queued)[begin:end]))
    lowest = float(np.quantile(queued[begin:end], 0.1))
    return (
        readings >= MIN_READINGS
        and during >= CROWDED * before
        and lowest >= before + (during - before) / 4
    )


def _first_crowded(rows: StepRows, whole: Floats, queued: Floats, near: int, usual: float) -> int:
    """Return the index from which on steps are interrupted, between readings of the waits.

    All steps count, those too that were not timed by phase: of these the long ones are known.
    """
    readings = np.concatenate([[0], np.flatnonzero(np.diff(queued)) + 1, [len(queued) - 1]])
    place = int(np.abs(readings - near).argmin())
    numbers = rows.steps[readings] - rows.steps[0]
    begin = int(numbers[max(0, place - 1)])
    end = int(numbers[min(len(readings) - 1, place + 1)])
    excess = np.zeros(int(rows.steps[-1] - rows.steps[0]) + 1)
    excess[rows.steps - rows.steps[0]] = whole - usual
    excess[rows.long_steps - rows.steps[0]] = rows.long_ns - usual
    excess = excess.clip(0, MOST_EXCESS * usual)
    before = float(excess[:begin].mean()) if begin else 0.0
    since = float(excess[min(end, (begin + len(excess)) // 2) :].mean())
    sums = np.concatenate([[0.0], np.cumsum(excess - (before + max(since, before)) / 2)])
    first = begin + int(sums[begin : end + 1].argmin())
    index = int(np.searchsorted(rows.steps, rows.steps[0] + first))
    return min(max(1, index), len(rows) - 1)


def _recurring(rows: StepRows, times: Mapping[Phase, Floats]) -> SlowDown | None:
    """Return the train of spikes that costs most, in a phase or in all of them together."""
    medians_ns = {phase: float(np.median(ns)) for phase, ns in times.items()}
    usual_ns = sum(medians_ns.values())
    trains: list[tuple[Phase | None, Train | None]] = [
        (phase, find_train(rows.steps, ns, usual_step=usual_ns)) for phase, ns in times.items()
    ]
    # Of steps that were not timed by phase, the long ones are known.
    steps = np.concatenate([rows.steps, rows.long_steps])
    whole = np.concatenate([summed(times.values()), rows.long_ns.astype(np.float64)])
    order = np.argsort(steps, kind="stable")
    known = np.arange(steps.min(), steps.max() + 1) if len(rows.long_steps) else rows.steps
    trains.append((None, find_train(steps[order], whole[order], usual_step=usual_ns, known=known)))
    matter = [
        (phase, train)
        for phase, train in trains
        if train is not None and train.height / train.every >= LEAST_MORE * usual_ns
    ]
    if not matter:
        return None
    phase, train = max(matter, key=lambda item: (len(item[1].steps), item[1].height))
    if phase is None:
        phase = _phase_of(train, rows, times, medians_ns)
    return _of_train(rows, medians_ns, phase, train)


def _phase_of(
    train: Train,
    rows: StepRows,
    times: Mapping[Phase, Floats],
    medians_ns: Mapping[Phase, float],
) -> Phase | None:
    """Return the phase with most of the spikes of a train, in its steps that were timed."""
    spiking = np.isin(rows.steps, train.steps)
    excess = {phase: float((ns[spiking] - medians_ns[phase]).sum()) for phase, ns in times.items()}
    phase = max(excess, key=excess.__getitem__)
    whole = sum(more for more in excess.values() if more > 0)
    return phase if whole > 0 and excess[phase] >= OF_PHASE * whole else None


def _of_train(
    rows: StepRows, medians_ns: Mapping[Phase, float], phase: Phase | None, train: Train
) -> SlowDown:
    usual_ns, more_ns = sum(medians_ns.values()), train.height / train.every
    phases = {}
    if phase is not None:
        before_ns = medians_ns[phase]
        phases[phase.value] = PhaseShift(round(before_ns), round(before_ns + more_ns))
    return SlowDown(
        shape=SlowDownShape.SPIKES,
        since_step=int(train.steps[0]),
        until_step=int(train.steps[-1]) if train.ended else None,
        noticed_step=int(rows.steps[-1]),
        before_ns=round(usual_ns),
        during_ns=round(usual_ns + more_ns),
        phase=None if phase is None else phase.value,
        every_steps=train.every,
        height_ns=round(train.height),
        phases=phases,
    )
