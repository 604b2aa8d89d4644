"""How long a step is at each line of the program, by samples of the training thread."""

from collections import defaultdict
from dataclasses import dataclass

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase

LEAST_COUNT = 5
"""Samples at a line below which its share says nothing: two standard errors are most of it."""


@dataclass(frozen=True)
class LineTime:
    """The share of a mean step in a line and all that it calls outside the program.

    `low_ns` to `high_ns` holds the true mean 19 times in 20, as far as chance goes, and samples
    that may be of other lines. They are of the first twenty seconds; on a GPU the host may wait at
    a line for work queued by others.
    """

    phase: Phase
    file: str
    line: int
    function: str
    source: str
    callee: str | None
    """The callee it was in most often, if that has a name."""
    count: int
    mean_ns: int
    low_ns: int
    high_ns: int
    frac: float
    """`mean_ns` as a share of the mean step."""
    low_frac: float
    high_frac: float
    operation: str | None
    """The call or operator that was seen running there most often."""


def line_times(run: RunResults) -> tuple[LineTime, ...]:
    """Return the lines of the program that were seen, those that take longest first."""
    seen = run.lines
    if seen is None or not run.step_ns:
        return ()
    at: dict[tuple[str, str, int], list[LineCount]] = defaultdict(list)
    for one in seen.lines:
        at[one.phase, one.file, one.line].append(one)
    found = []
    for (name, file, line), ones in at.items():
        count = sum(one.count for one in ones)
        phase = Phase(name)
        per_step = run.per_step(phase)
        if count < LEAST_COUNT or per_step is None or not per_step.mean_ns:
            continue
        low, high = seen.interval(ones, phase)
        mean_ns = round(per_step.mean_ns * count / seen.by_phase[name])
        most = max(ones, key=lambda one: one.count)
        found.append(
            LineTime(
                phase,
                file,
                line,
                most.function,
                most.source,
                most.callee,
                count,
                mean_ns,
                round(low * per_step.mean_ns),
                round(high * per_step.mean_ns),
                mean_ns / run.step_ns,
                low * per_step.mean_ns / run.step_ns,
                high * per_step.mean_ns / run.step_ns,
                most.operation,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.mean_ns))


def unlisted_ns(run: RunResults) -> int | None:
    """Return at most how long a step is at any line that `line_times` leaves out.

    Such a line has fewer samples than `LEAST_COUNT`, and may be meant by those in doubt. None where
    that may be as long as at the lines that are listed.
    """
    listed, most = line_times(run), 0.0
    if run.lines is None or not listed:
        return None
    for one in {(one.phase, one.file, one.function): one for one in run.lines.lines}.values():
        per_step = run.per_step(Phase(one.phase))
        count = min(LEAST_COUNT - 1, run.lines.by_phase[one.phase])
        rare = replace(one, line=0, count=count, doubt=0)
        high = run.lines.interval([rare], Phase(one.phase))[1]
        most = max(most, high * (per_step.mean_ns if per_step else 0))
    return round(most) if most < listed[0].mean_ns else None
