"""Samples of the training thread by line of the program, as time per step."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.records.lines import COLLECTIVE, HostLines, LineCount
from lightning_gpuprof.records.phases import Phase

COLLECTS = "gc.collect("
"""In a line's text: it calls the garbage collector."""
LEAST_COUNT = 5
"""A line needs this many samples: with fewer, two standard errors are most of its share."""


@dataclass(frozen=True, kw_only=True)
class SampledLine:
    """A line of the program with everything that it calls outside the program.

    The interval from `low_frac` to `high_frac` holds the line's true share 19 times in 20. It
    allows for chance, and for samples that may belong to other lines.
    """

    file: str
    line: int
    function: str
    source: str
    callee: str | None
    """The callee that was sampled most often, if it has a name."""
    count: int
    frac: float
    low_frac: float
    high_frac: float


@dataclass(frozen=True)
class LineSamples:
    """All samples at a line in a phase."""

    by_callee: tuple[LineCount, ...]
    """The samples by what the line was calling, the most frequent callee first."""

    @property
    def most(self) -> LineCount:
        """The samples with the most frequent callee."""
        return self.by_callee[0]

    @property
    def count(self) -> int:
        """How many samples there are."""
        return sum(samples.count for samples in self.by_callee)


def group_by_line(lines: Iterable[LineCount], least: int = LEAST_COUNT) -> list[LineSamples]:
    """Group samples by line and phase; lines with fewer than `least` are left out."""
    groups: dict[tuple[str, str, int], list[LineCount]] = defaultdict(list)
    for samples in lines:
        groups[samples.phase, samples.file, samples.line].append(samples)
    by_line = [
        LineSamples(tuple(sorted(group, key=lambda samples: -samples.count)))
        for group in groups.values()
    ]
    return [line for line in by_line if line.count >= least]


@dataclass(frozen=True, kw_only=True)
class LineTime(SampledLine):
    """The time per step at a line, with its interval from `low_ns` to `high_ns`.

    Shares are of the mean step. Samples are of the first twenty seconds. On a GPU, the host may
    wait at a line for work that other lines have queued.
    """

    phase: Phase
    mean_ns: int
    low_ns: int
    high_ns: int
    operation: str | None
    """The call or operator of the line that was sampled most often."""


def times_at_lines(
    host_lines: HostLines,
    phases: Mapping[Phase, PerStep | None],
    step_ns: int,
    *,
    least: int = LEAST_COUNT,
) -> tuple[LineTime, ...]:
    """Return the time per step at every line with at least so many samples, the longest first.

    Args:
        host_lines: The samples.
        phases: The time of the phases per step.
        step_ns: The mean step, of which shares are given.
        least: Lines with fewer samples are left out.
    """
    times = []
    own = (line for line in host_lines.lines if line.kind != COLLECTIVE)
    for samples in group_by_line(own, least):
        most = samples.most
        phase = Phase(most.phase)
        per_step = phases.get(phase)
        if per_step is None or not per_step.mean_ns:
            continue
        low, high = host_lines.interval(samples.by_callee, phase)
        mean_ns = round(per_step.mean_ns * samples.count / host_lines.by_phase[phase.value])
        times.append(
            LineTime(
                file=most.file,
                line=most.line,
                function=most.function,
                source=most.source,
                callee=most.callee,
                count=samples.count,
                phase=phase,
                mean_ns=mean_ns,
                low_ns=round(low * per_step.mean_ns),
                high_ns=round(high * per_step.mean_ns),
                frac=mean_ns / step_ns,
                low_frac=low * per_step.mean_ns / step_ns,
                high_frac=high * per_step.mean_ns / step_ns,
                operation=most.operation,
            )
        )
    return tuple(sorted(times, key=lambda line: -line.mean_ns))
