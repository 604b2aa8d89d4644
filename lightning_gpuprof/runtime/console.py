"""Lines on the user's terminal: visible by default, and above a progress bar."""

import logging
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress

from typing_extensions import override

from lightning_gpuprof.records.facts import SlowDown, SlowDownShape
from lightning_gpuprof.records.phases import CONSOLE_GROUPS, SHOWN_APART
from lightning_gpuprof.units import duration, percent, seconds

APART_FRAC = 0.05
log = logging.getLogger("lightning_gpuprof")


class _Terminal(logging.Handler):
    """Writes to the current stderr, above a tqdm bar if there is one."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        tqdm = sys.modules.get("tqdm")
        if tqdm is not None:
            tqdm.tqdm.write(text, file=sys.stderr)
        else:
            sys.stderr.write(text + "\n")


def say(text: str, level: int = logging.INFO) -> None:
    """Show a line to the user through the logger `lightning_gpuprof`.

    If the user has configured logging, the line goes there, otherwise to the terminal. A Python
    warning is not used, since it would end the training of a program that turns warnings into
    errors. A closed terminal is ignored.
    """
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        log.addHandler(_Terminal())
    with suppress(OSError, ValueError, AttributeError):
        log.log(level, text)


def report_command(run_dir: str) -> str:
    """Return the command that shows a run's report.

    >>> report_command("logs/my run")
    "lightning-gpuprof report 'logs/my run'"
    """
    return f"lightning-gpuprof report {shlex.quote(run_dir)}"


def slow_down_line(slow_down: SlowDown) -> str:
    """Return the console line about a slow-down.

    >>> slow_down = SlowDown(
    ...     shape=SlowDownShape.STEP, since_step=4210, noticed_step=4400, before_ns=2_000_000,
    ...     during_ns=3_000_000, phase="callbacks",
    ... )
    >>> slow_down_line(slow_down)
    '[PROFILE] slower since step 4,210: 2.00 ms -> 3.00 ms per step, mostly in callbacks'
    """
    since = f"since step {slow_down.since_step:,}"
    where = f", mostly in {slow_down.phase}" if slow_down.phase else ", in all phases"
    if slow_down.shape is SlowDownShape.SPIKES:
        height, every = duration(slow_down.height_ns or 0), slow_down.every_steps or 1
        return f"[PROFILE] slow steps {since}: {height} more every {every:,} steps{where}"
    if slow_down.shape is SlowDownShape.RAMP:
        more = duration(slow_down.per_100_steps_ns or 0)
        return f"[PROFILE] slower and slower {since}: {more} more every 100 steps{where}"
    change = f"{duration(slow_down.before_ns)} -> {duration(slow_down.during_ns)}"
    return f"[PROFILE] slower {since}: {change} per step{where}"


def profile_line(
    phase_total_ns: Mapping[str, int], total_ns: int, steps: int, more: Iterable[str] = ()
) -> str:
    """Return the console line of a window: the share of time by phase, the total, then `more`.

    Validation, checkpoints and callbacks are part of "other", unless they take `APART_FRAC`.

    >>> profile_line({"data_wait": 1, "forward": 1, "backward": 1}, 3_000_000_000, 50, ["step 150"])
    ... # doctest: +NORMALIZE_WHITESPACE
    '[PROFILE] data: 33.3% | fwd: 33.3% | bwd: 33.3% | h2d: 0.0% | opt: 0.0% | other: 0.0% | total:
    3.00s/50 steps | step 150'
    >>> profile_line({"forward": 60, "validation": 37, "callbacks": 3}, 3_000_000_000, 1)
    ... # doctest: +NORMALIZE_WHITESPACE
    '[PROFILE] data: 0.0% | fwd: 60.0% | bwd: 0.0% | h2d: 0.0% | opt: 0.0% | validation: 37.0% |
    other: 3.0% | total: 3.00s/1 step'
    """
    whole = sum(phase_total_ns.values()) or 1
    apart = {
        phase.value: phase_total_ns[phase.value]
        for phase in SHOWN_APART
        if phase_total_ns.get(phase.value, 0) >= APART_FRAC * whole
    }
    sums = {
        label: sum(
            phase_total_ns.get(phase.value, 0) for phase in phases if phase.value not in apart
        )
        for label, phases in CONSOLE_GROUPS.items()
    }
    rest = sums.pop("other")
    sums |= {**apart, "other": rest}
    parts = [f"{label}: {percent(spent / whole, decimals=1)}" for label, spent in sums.items()]
    total = f"total: {seconds(total_ns)}/{steps} {'step' if steps == 1 else 'steps'}"
    return f"[PROFILE] {' | '.join((*parts, total, *more))}"
