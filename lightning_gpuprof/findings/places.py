"""Names the lines of the user's own code in which the phase of a finding was spent."""

import re
from collections.abc import Iterable
from dataclasses import replace

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines, longer_here
from lightning_gpuprof.findings.late_lines import lines_there
from lightning_gpuprof.findings.model import Finding, Line, Where
from lightning_gpuprof.records.function_calls import BusyFunction, FunctionNotes, function_notes
from lightning_gpuprof.records.phases import Phase

MIN_READS = 10
"""Fewer in a step are not named: one may be a tenth of them."""
MIN_FRAC = 0.25
"""A line with less of its phase's samples, or calls, is one of many."""
MIN_CALLS = 30
"""A function that calls fewer of torch's is no loop: what is small and many is inside of those."""
MOST = 2
HALF = 0.5
PHASES = {
    phase.value: phase
    for phase in (
        Phase.DATA_WAIT,
        Phase.HOST_TO_DEVICE,
        Phase.CALLBACKS,
        Phase.CLIP_GRADIENTS,
        Phase.OPTIMIZER_STEP,
        Phase.LOGGING,
        Phase.VALIDATION,
        Phase.OTHER,
    )
}
"""In which a line of the user's own is the cause; in forward and backward it is the model. In
validation it is often what training does not run: decoding, metrics."""
SYNC = "host-sync"
LOOPS = ("host-bound", "small-kernels", SYNC)
"""Findings that lie in loops of the forward pass: in the line that calls most of what they are
about, though another may take longer; where no call was looked at, in the line seen most often."""


def attribute(name: str) -> str:
    """Return a module's name as `training_step` would write it.

    >>> attribute("net.layers.0.1")
    'self.net.layers[0][1]'
    """
    return "self." + re.sub(r"\.(\d+)(?![^.])", r"[\1]", name)


def in_forward(lines: Iterable[Line]) -> tuple[Where, ...]:
    """Return lines of the forward pass as places of a finding."""
    return tuple(Where.at(one, phase=Phase.FORWARD.value) for one in lines)


def written_as(run: RunResults, phase: Phase, pattern: str) -> tuple[LineCount, ...]:
    """Return the lines of a phase that are written as such a call, the most often seen first."""
    seen = host_lines(run.notes)
    at: dict[tuple[str, int], list[LineCount]] = {}
    for one in seen.of(phase) if seen else ():
        if re.search(pattern, one.source.split("#")[0]):
            at.setdefault((one.file, one.line), []).append(one)
    count = {place: sum(one.count for one in ones) for place, ones in at.items()}
    ranked = sorted(at, key=lambda place: -count[place])
    return tuple(at[place][0] for place in ranked[:MOST] if count[place] >= LEAST_COUNT)


def with_lines(finding: Finding, run: RunResults) -> Finding:
    """Return a finding with the lines of its phase, where samples show them and it names none."""
    if any(where.file for where in finding.where):
        return finding
    busy = _busy(run, finding) if finding.id in LOOPS else ()
    if busy:
        return replace(finding, where=(*finding.where, *busy))
    waits = run.rank_waits
    if waits is not None and any(_late_in_forward(where, waits) for where in finding.where):
        return replace(finding, where=(*finding.where, *lines_there(waits)))
    phase = next((PHASES[w.phase] for w in finding.where if w.phase in PHASES), None)
    if finding.id in LOOPS:
        phase = Phase.FORWARD
    if any(where.rank not in (None, run.start.rank) for where in finding.where):
        run = as_late_rank(run)
    lines = host_lines(run.notes)
    if phase is Phase.DATA_WAIT and waits_for_batches(run):
        lines = batch_lines(run)
    if phase is None or lines is None:
        return finding
    least = max(LEAST_COUNT, MIN_FRAC * lines.by_phase.get(phase.value, 0))
    functions: dict[tuple[str, str], list[LineCount]] = {}
    for one in lines.of(phase):
        functions.setdefault((one.file, one.function), []).append(one)
    ranked = sorted(functions.values(), key=lambda ones: -sum(one.count for one in ones))
    shown = [ones for ones in ranked[:MOST] if sum(one.count for one in ones) >= least]
    # A function's first line, and what else in it takes as much.
    at = [one for ones in shown for one in ones if one is ones[0] or one.count >= least]
    found = dict.fromkeys(Where.at(one, phase=phase.value) for one in at)
    return replace(finding, where=(*finding.where, *found))


def _late_in_forward(where: Where, waits: RankWaits) -> bool:
    return where.rank in waits.late and where.phase == Phase.FORWARD.value


def as_late_rank(run: RunResults) -> RunResults:
    """Return a run with what the rank that others wait for was seen at in place of its own."""
    waits = run.rank_waits
    if waits is None:
        return replace(run, notes=())
    return replace(run, notes=waits.notes, loader_wait=waits.loader_wait)


def waits_for_batches(run: RunResults) -> bool:
    """Tell whether the wait for data is for the making of batches, not for what is around it."""
    parts, wait = run.loader_wait, run.per_step(Phase.DATA_WAIT)
    if (parts.sampler_frac or 0.0) >= HALF:
        return False
    if parts.workers_frac is None or parts.workers_frac >= HALF:
        return True
    return wait is not None and longer_here(run, wait.mean_ns)


def _busy(run: RunResults, finding: Finding) -> tuple[Where, ...]:
    """Return the lines of the functions that make a good part of a forward pass's calls.

    Of reads it is a good part of those that the finding counts: few others may be all that the
    forward pass has of them.
    """
    seen = function_notes(run.notes)
    if seen is None:
        return ()
    if finding.id != SYNC:
        named = (*at_once(seen), *busiest(seen))
        places = [at for one in named for at in (one.place, one.loop) if at]
        return in_forward(dict.fromkeys(places))
    least = max(MIN_READS, MIN_FRAC * finding.evidence.get("reads_per_step_count", 0))
    reading = [one for one in seen.reading[:MOST] if one.calls >= least]
    return in_forward(one.place for one in reading if one.calls_frac >= MIN_FRAC)


def busiest(seen: FunctionNotes) -> tuple[BusyFunction, ...]:
    """Return the functions that make a good part of a forward pass's calls."""
    return tuple(
        one for one in seen.busy[:MOST] if one.calls_frac >= MIN_FRAC and one.calls >= MIN_CALLS
    )


def calls_of(seen: FunctionNotes) -> int | None:
    """Return how many of torch's functions a forward pass calls; None where nothing was counted."""
    counted = [one.calls / one.calls_frac for one in seen.busy if one.calls_frac]
    return round(counted[0]) if counted else None


def at_once(seen: FunctionNotes) -> tuple[BusyFunction, ...]:
    """Return functions whose loops' turns could be done at once, beside one where they cannot.

    That one makes most calls, and each of its turns needs what the one before gave. The others are
    told where they are a good part of the calls together.
    """
    first = next(iter(busiest(seen)), None)
    if first is None or not first.goes_on or any(one.loop == first.loop for one in seen.cells):
        return ()
    found = [
        one
        for one in seen.busy
        if one.loop is not None and not one.goes_on and (one.loop_calls or one.calls) >= MIN_CALLS
    ]
    return tuple(found) if sum(one.calls_frac for one in found) >= MIN_FRAC else ()
