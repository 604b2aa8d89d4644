"""Names the lines of the user's own code in which the phase of a finding was spent."""

import re
from collections.abc import Iterable
from dataclasses import replace

from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines, longer_here
from lightning_gpuprof.findings.model import Finding, Place
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import Phase

MIN_FRAC = 0.25
"""A line with less of its phase's samples is one of many."""
MOST = 2
HALF = 0.5
_NOT_LINES = (Phase.FORWARD, Phase.BACKWARD, Phase.ZERO_GRAD)
"""In forward and backward it is the model; in the other phases a line of the user's own."""
_RARE = (Phase.CHECKPOINT, Phase.GARBAGE_COLLECTION)
PHASES = {one.value: one for one in Phase if one not in (*_NOT_LINES, *_RARE)}
LOOPS = ("host-bound", "small-kernels", "host-sync")
"""Findings that lie in loops of the forward pass, in the line seen most often there."""


def with_lines(finding: Finding, run: RunResults) -> Finding:
    """Return a finding with the lines of its phase, where samples show them and it names none."""
    if any(at.file for at in finding.places):
        return finding
    waits = run.ranks.waits
    if waits is not None and any(
        at.rank in waits.late and at.phase == Phase.FORWARD.value for at in finding.places
    ):
        return replace(finding, places=(*finding.places, *_only_there(waits)))
    phase = next((PHASES[at.phase] for at in finding.places if at.phase in PHASES), None)
    if finding.id in LOOPS:
        phase = Phase.FORWARD
    if any(at.rank not in (None, run.start.rank) for at in finding.places):
        run = as_late_rank(run)
    lines = batch_lines(run) if phase is Phase.DATA_WAIT and waits_for_batches(run) else run.lines
    if phase is None or lines is None:
        return finding
    found = dict.fromkeys(Place.at(one, phase=phase.value) for one in _longest(lines, phase))
    return replace(finding, places=(*finding.places, *found))


def _longest(lines: HostLines, phase: Phase) -> list[LineCount]:
    """Return the first lines of the functions seen most, and what else in them takes as much."""
    least = max(LEAST_COUNT, MIN_FRAC * lines.by_phase.get(phase.value, 0))
    functions: dict[tuple[str, str], list[LineCount]] = {}
    for one in lines.of(phase):
        functions.setdefault((one.file, one.function), []).append(one)
    ranked = sorted(functions.values(), key=lambda ones: -sum(one.count for one in ones))
    shown = [ones for ones in ranked[:MOST] if sum(one.count for one in ones) >= least]
    return [one for ones in shown for one in ones if one is ones[0] or one.count >= least]


def _only_there(waits: RankWaits) -> tuple[Place, ...]:
    """Return the lines that surely take more of a step on the late rank than on another."""
    there, elsewhere = waits.lines, waits.other_lines
    if there is None or elsewhere is None:
        return ()
    ours, others = _by_line(there), _by_line(elsewhere)
    least = max(LEAST_COUNT, MIN_FRAC * there.by_phase.get(Phase.FORWARD.value, 0))
    # One that was never seen elsewhere may be there still, as seldom as once.
    late = [
        seen[0]
        for at, seen in ours.items()
        if sum(one.count for one in seen) >= least
        and there.interval(seen)[0] > elsewhere.interval(others.get(at, []))[1]
    ]
    return tuple(Place.at(one, phase=Phase.FORWARD.value) for one in late[:MOST])


def _by_line(lines: HostLines) -> dict[tuple[str, int], list[LineCount]]:
    """Return the samples of each line, the one seen most first."""
    found: dict[tuple[str, int], list[LineCount]] = {}
    for one in lines.of(Phase.FORWARD):
        found.setdefault((one.file, one.line), []).append(one)
    ranked = sorted(found.items(), key=lambda item: -sum(one.count for one in item[1]))
    return dict(ranked)


def as_late_rank(run: RunResults) -> RunResults:
    """Return a run with the samples of the late rank instead of its own."""
    waits = run.ranks.waits
    if waits is None:
        return replace(run, lines=None, loader=replace(run.loader, workers=None))
    loader = replace(run.loader, workers=waits.worker_lines, wait=waits.loader_wait)
    return replace(run, lines=waits.lines, loader=loader)


def waits_for_batches(run: RunResults) -> bool:
    """Tell whether the wait for data is mostly for making batches."""
    parts, wait = run.loader.wait, run.per_step(Phase.DATA_WAIT)
    if (parts.sampler_frac or 0.0) >= HALF:
        return False
    if parts.workers_frac is None or parts.workers_frac >= HALF:
        return True
    return wait is not None and longer_here(run, wait.mean_ns)


_KEEPS = re.compile(
    r"[\w.]+(\.\w+|\[.+\])\s*=.*\b(cat|concat|concatenate|stack|vstack|hstack|append)\("
    r"|.*\w\.(append|extend|appendleft)\("
)


def keeping(run: RunResults, phases: Iterable[Phase]) -> LineCount | None:
    """Return the line seen most often in some phases that appends to a collection."""
    if run.lines is None:
        return None
    seen = [one for phase in phases for one in run.lines.of(phase, (None, "python", "torch"))]
    return next((one for one in seen if _KEEPS.match(one.source)), None)
