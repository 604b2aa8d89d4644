"""The slow-downs that were noticed in a session, and the captures that were made of it."""

from lightning_gpuprof.records.facts import Capture, SlowDown
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.span import StepSpan


def slow_downs(session: Session) -> tuple[SlowDown, ...]:
    """Return the slow-downs of a session, the earliest first, each as it was recorded last."""
    by_step = {record.since_step: record for record in session.all(SlowDown)}
    return tuple(by_step[step] for step in sorted(by_step))


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
    return before, StepSpan(since, slow_down.until_step)


def costliest(slow_downs: tuple[SlowDown, ...], last_step: int) -> SlowDown | None:
    """Return the slow-down with most time in all its steps so far; None if there is none."""

    def cost_ns(slow_down: SlowDown) -> int:
        until = last_step if slow_down.until_step is None else slow_down.until_step
        return slow_down.more_ns * max(1, until - slow_down.since_step + 1)

    return max(slow_downs, key=cost_ns, default=None)
