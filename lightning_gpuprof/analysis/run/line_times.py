"""How long a step is at each line of the program, by samples of the training thread."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase

LEAST_COUNT = 5
"""Samples at a line below which its share says nothing: two standard errors are most of it."""


@dataclass(frozen=True, kw_only=True)
class SampledLine:
    """A line and all that it calls outside the program.

    `low_frac` to `high_frac` holds its true share 19 times in 20, as far as chance goes, and
    samples that may be of other lines.
    """

    file: str
    line: int
    function: str
    source: str
    callee: str | None
    """The callee it was in most often, if that has a name."""
    count: int
    frac: float
    low_frac: float
    high_frac: float


def sampled(lines: Iterable[LineCount]) -> Iterator[tuple[list[LineCount], dict[str, Any]]]:
    """Yield the samples of each line seen often enough, most first, and what they say of it."""
    at: dict[tuple[str, str, int], list[LineCount]] = defaultdict(list)
    for one in lines:
        at[one.phase, one.file, one.line].append(one)
    for ones in at.values():
        ones.sort(key=lambda one: -one.count)
        about = {
            key: getattr(ones[0], key) for key in ("file", "line", "function", "source", "callee")
        }
        if (count := sum(one.count for one in ones)) >= LEAST_COUNT:
            yield ones, about | {"count": count}


@dataclass(frozen=True, kw_only=True)
class LineTime(SampledLine):
    """The share of a mean step in a line; `low_ns` to `high_ns` is its interval as a time.

    Samples are of the first twenty seconds; on a GPU the host may wait at a line for work queued by
    others.
    """

    phase: Phase
    mean_ns: int
    low_ns: int
    high_ns: int
    operation: str | None
    """The call or operator that was seen running there most often."""


def line_times(run: RunResults) -> tuple[LineTime, ...]:
    """Return the lines of the program that were seen, those that take longest first."""
    seen, step_ns = run.lines, run.step_ns
    if seen is None or not step_ns:
        return ()
    found = []
    for ones, about in sampled(seen.lines):
        phase = Phase(ones[0].phase)
        per_step = run.per_step(phase)
        if per_step is None or not per_step.mean_ns:
            continue
        low, high = seen.interval(ones, phase)
        mean_ns = round(per_step.mean_ns * about["count"] / seen.by_phase[phase.value])
        found.append(
            LineTime(
                **about,
                phase=phase,
                mean_ns=mean_ns,
                low_ns=round(low * per_step.mean_ns),
                high_ns=round(high * per_step.mean_ns),
                frac=mean_ns / step_ns,
                low_frac=low * per_step.mean_ns / step_ns,
                high_frac=high * per_step.mean_ns / step_ns,
                operation=ones[0].operation,
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
