"""Adds the lines of the user's code in which a finding's phase was spent."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines, longer_here
from lightning_gpuprof.findings.model import Finding, Place, When
from lightning_gpuprof.findings.operators import operators
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import LOADER_HOOKS, Phase

MIN_FRAC = 0.25
"""A line with a smaller share of its phase's samples is one of many."""
MOST = 2
HALF = 0.5
_OF_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.ZERO_GRAD)
"""In these phases time is the model's; in the others, it belongs to lines of the user's own."""
_RARE = (Phase.CHECKPOINT, Phase.GARBAGE_COLLECTION)
PHASES = {phase.value: phase for phase in Phase if phase not in (*_OF_MODEL, *_RARE)}
SMALL_OPERATORS = ("host-bound", "small-kernels")
"""Findings about many small operators: a line inside a heavy operation is none of theirs."""
LOOPS = (*SMALL_OPERATORS, "host-sync")
"""Findings about loops in the forward pass, which are at its line with the most samples."""


def with_lines(finding: Finding, run: RunResults) -> Finding:
    """Return a finding with the sampled lines of its phase, unless it names lines itself."""
    if any(place.file for place in finding.places):
        return finding
    if finding.when is When.BETWEEN and finding.places and _runs_between(finding.places[0]):
        return replace(finding, places=(*finding.places, *_between_epochs(finding, run)))
    waits = run.ranks.waits
    if waits is not None and any(
        place.rank in waits.late and place.phase == Phase.FORWARD.value for place in finding.places
    ):
        return replace(finding, places=(*finding.places, *_only_on_late_rank(waits)))
    phase = next((PHASES[place.phase] for place in finding.places if place.phase in PHASES), None)
    if finding.id in LOOPS:
        phase = Phase.FORWARD
    if any(place.rank not in (None, run.start.rank) for place in finding.places):
        run = as_late_rank(run)
    lines = batch_lines(run) if phase is Phase.DATA_WAIT and waits_for_batches(run) else run.lines
    if phase is None or lines is None:
        return finding
    of_phase = lines.of(phase)
    if finding.id in SMALL_OPERATORS:
        heavy = operators().computing
        of_phase = [line for line in of_phase if not any(row.fits(line) for row in heavy)]
    longest = _longest(of_phase, lines.by_phase.get(phase.value, 0))
    places = dict.fromkeys(Place.at(line, phase=phase.value) for line in longest)
    return replace(finding, places=(*finding.places, *places))


def _runs_between(place: Place) -> bool:
    """Return whether a place is a hook or callback. A sampler works in an epoch's first step."""
    is_wait = place.phase == Phase.DATA_WAIT.value
    return place.name in LOADER_HOOKS if is_wait else place.name is not None


def _between_epochs(finding: Finding, run: RunResults) -> tuple[Place, ...]:
    """Return the lines of the hook or callback between epochs that a finding names first."""
    place, lines = finding.places[0], run.facts.outside_lines
    if lines is None or place.phase is None:
        return ()
    of_part = lines.of(Phase(place.phase), place.name)
    longest = _longest(of_part, _count_of(of_part))
    return tuple(dict.fromkeys(Place.at(line, phase=place.phase) for line in longest))


def _longest(lines: Sequence[LineCount], count: int) -> list[LineCount]:
    """Return the first line of the functions with the most samples, and their other long lines.

    Of `count` samples, a function has `MIN_FRAC` or more.
    """
    least = max(LEAST_COUNT, MIN_FRAC * count)
    functions: dict[tuple[str, str], list[LineCount]] = {}
    for line in lines:
        functions.setdefault((line.file, line.function), []).append(line)
    ranked = sorted(functions.values(), key=_count_of, reverse=True)
    return [
        line
        for of_function in ranked[:MOST]
        if _count_of(of_function) >= least
        for line in of_function
        if line is of_function[0] or line.count >= least
    ]


def _count_of(lines: Sequence[LineCount]) -> int:
    return sum(line.count for line in lines)


def _only_on_late_rank(waits: RankWaits) -> tuple[Place, ...]:
    """Return the lines that surely take more of a step on the late rank than on another rank."""
    late, other = waits.lines, waits.other_lines
    if late is None or other is None:
        return ()
    on_other = _by_line(other)
    least = max(LEAST_COUNT, MIN_FRAC * late.by_phase.get(Phase.FORWARD.value, 0))
    # A line without samples on the other rank may run there, too, but not for long: its interval
    # is that of a single sample.
    longer = [
        lines[0]
        for at, lines in _by_line(late).items()
        if _count_of(lines) >= least
        and late.interval(lines)[0] > other.interval(on_other.get(at, []))[1]
    ]
    return tuple(Place.at(line, phase=Phase.FORWARD.value) for line in longer[:MOST])


def _by_line(lines: HostLines) -> dict[tuple[str, int], list[LineCount]]:
    """Return forward's samples by line, the line with the most samples first."""
    by_line: dict[tuple[str, int], list[LineCount]] = {}
    for line in lines.of(Phase.FORWARD):
        by_line.setdefault((line.file, line.line), []).append(line)
    return dict(sorted(by_line.items(), key=lambda item: _count_of(item[1]), reverse=True))


def as_late_rank(run: RunResults) -> RunResults:
    """Return the results with the late rank's samples in place of this rank's own."""
    waits = run.ranks.waits
    if waits is None:
        return replace(run, lines=None, loader=replace(run.loader, workers=None))
    loader = replace(run.loader, workers=waits.worker_lines, wait=waits.loader_wait)
    return replace(run, lines=waits.lines, loader=loader)


def waits_for_batches(run: RunResults) -> bool:
    """Return whether the wait for data is mostly the time that making batches takes."""
    parts, wait = run.loader.wait, run.per_step(Phase.DATA_WAIT)
    if (parts.sampler_frac or 0.0) >= HALF:
        return False
    if parts.workers_frac is None or parts.workers_frac >= HALF:
        return True
    return wait is not None and longer_here(run, wait.mean_ns)


_APPENDS = re.compile(
    r"[\w.]+(\.\w+|\[.+\])\s*=.*\b(cat|concat|concatenate|stack|vstack|hstack|append)\("
    r"|.*\w\.(append|extend|appendleft)\("
)


def appending_line(run: RunResults, phases: Iterable[Phase]) -> LineCount | None:
    """Return the line with the most samples, in some phases, that appends to a collection."""
    if run.lines is None:
        return None
    kinds = (None, "python", "torch")
    lines = [line for phase in phases for line in run.lines.of(phase, kinds)]
    return next((line for line in lines if _APPENDS.match(line.source)), None)
