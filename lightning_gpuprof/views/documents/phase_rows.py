"""The rows of the table of phases, which the console and Markdown lay out."""

from collections.abc import Iterator
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase

MIN_PART_FRAC = 0.005
"""Parts below this share of the step are left out, and short phases are one row."""


@dataclass(frozen=True)
class PhaseRow:
    """A phase, a named part of the one above it, or all short ones together."""

    name: str
    mean_ns: int
    frac: float
    device_ns: int | None = None
    part: bool = False
    of_phase: bool = True
    """It is one phase, whole."""


def phase_rows(results: RunResults, *, verbose: bool = False) -> Iterator[PhaseRow]:
    """Yield the phases of a step, and after each its named parts.

    Unless verbose, the phases that are short on the host and on the device are one row, so that
    all still add up to the step.
    """
    marks = results.device_time.phases if results.device_time else {}
    short: dict[Phase, PerStep] = {}
    for phase, stats in results.phases.items():
        one = stats.per_step
        if one is None or not one.mean_ns:
            continue
        mark = marks.get(phase)
        if max(one.frac, mark.frac if mark else 0.0) < MIN_PART_FRAC and not verbose:
            short[phase] = one
            continue
        yield PhaseRow(phase.value, one.mean_ns, one.frac, mark.mean_ns if mark else None)
        for part in results.parts_of(phase):
            if part.per_step is not None and part.per_step.frac >= MIN_PART_FRAC:
                share = part.per_step
                yield PhaseRow(part.name, share.mean_ns, share.frac, part=True, of_phase=False)
    if short:
        marked = [marks[phase].mean_ns for phase in short if phase in marks]
        yield PhaseRow(
            f"{len(short)} smaller one{'' if len(short) == 1 else 's'}",
            sum(one.mean_ns for one in short.values()),
            sum(one.frac for one in short.values()),
            sum(marked) if marked else None,
            of_phase=False,
        )
