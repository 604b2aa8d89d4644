"""The slow-downs in a session, and the captures that were made of it."""

import numpy as np

from lightning_gpuprof.analysis.run.pace import phases_without_own
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.facts import Capture, SlowDown, WaitSoFar
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan
from lightning_gpuprof.records.span import StepSpan
from lightning_gpuprof.shifts.slow_down import find_slow_down, is_confirmed
from lightning_gpuprof.shifts.step_rows import StepRows

MOST_STEPS = 1 << 16
"""Of more steps, some are left out, at equal distances."""


def slow_downs(session: Session) -> tuple[SlowDown, ...]:
    """Return the slow-downs of a session, the earliest first.

    What all steps show takes the place of what was noticed while training ran, where both are about
    the same steps. Of what was noticed, the last record of each counts.
    """
    by_step = {record.since_step: record for record in session.all(SlowDown)}
    shown = _shown_by_steps(session) if session.steps else None
    if shown is not None:
        steps = _span(shown)
        others = (other for other in by_step.values() if steps.common(_span(other)) is None)
        by_step = {slow_down.since_step: slow_down for slow_down in (*others, shown)}
    return tuple(by_step[step] for step in sorted(by_step))


def _shown_by_steps(session: Session) -> SlowDown | None:
    """Return the slow-down in all steps so far; while training runs, only if it is confirmed."""
    rows = step_rows(session)
    slow_down = find_slow_down(rows)
    if slow_down is not None and session.end is None and not is_confirmed(rows, slow_down):
        return None
    return slow_down


def _span(slow_down: SlowDown) -> StepSpan:
    return StepSpan(slow_down.since_step, slow_down.until_step)


def step_rows(session: Session) -> StepRows:
    """Return the times of a session's steps by phase, without this package's own."""
    columns, every = session.columns, max(1, -(-session.steps // MOST_STEPS))
    steps = session.step_numbers
    numbers = columns.get("numbers")
    spans = [span for span in session.all(OutsideSpan) if span.long_steps]
    rows = StepRows(
        steps,
        step_flags(session),
        phases_without_own(session),
        numbers if numbers is not None and (numbers > 0).all() else None,
        _waits(session, steps),
        columns.get("device_dur"),
        np.array([step for span in spans for step in span.long_steps], dtype=np.int64),
        np.array([ns for span in spans for ns in span.long_ns], dtype=np.int64),
        bool(session.start.loader and session.start.loader.num_workers),
    )
    return rows if every == 1 else rows.chosen(slice(None, None, every))


def _waits(session: Session, steps: Int64) -> Int64 | None:
    """Return how long each step waited for a core on average, between readings."""
    readings = session.all(WaitSoFar)
    if len(readings) < 2:
        return None
    at = np.array([record.step for record in readings])
    queued = np.array([record.queued_ns for record in readings], dtype=np.int64)
    means = np.diff(queued) // np.diff(at).clip(min=1)
    place = np.searchsorted(at, steps, side="left").clip(1, len(at) - 1) - 1
    waits: Int64 = means[place].clip(min=0)
    return waits


def captures(session: Session) -> tuple[Capture, ...]:
    """Return the captures of a session by number, each as it was recorded last."""
    by_number = {record.number: record for record in session.all(Capture)}
    return tuple(by_number[number] for number in sorted(by_number))


def spans_around(
    slow_down: SlowDown, all_slow_downs: tuple[SlowDown, ...]
) -> tuple[StepSpan, StepSpan] | None:
    """Return the steps before a slow-down and those during it; None if there are none before.

    Steps of an earlier slow-down count as before only if that one has not ended by then.

    >>> first = SlowDown(shape="step", since_step=50, until_step=99, noticed_step=70,
    ...                  before_ns=1, during_ns=2)
    >>> second = SlowDown(shape="step", since_step=200, noticed_step=230, before_ns=1, during_ns=2)
    >>> spans_around(second, (first, second))
    (StepSpan(first=100, last=199), StepSpan(first=200, last=None))
    """
    since = slow_down.since_step
    if not since:
        return None
    begin = 0
    for other in all_slow_downs:
        if other.since_step < since:
            end = other.until_step
            begin = max(begin, other.since_step if end is None or end + 1 >= since else end + 1)
    before = StepSpan(begin, since - 1)
    return before, _span(slow_down)


def costliest(slow_downs: tuple[SlowDown, ...], last_step: int) -> SlowDown | None:
    """Return the slow-down with most time in all its steps so far; None if there is none."""

    def cost_ns(slow_down: SlowDown) -> int:
        until = last_step if slow_down.until_step is None else slow_down.until_step
        return slow_down.more_ns * max(1, until - slow_down.since_step + 1)

    return max(slow_downs, key=cost_ns, default=None)
