"""Names the lines of the user's own code in which the phase of a finding was spent."""

import re
from dataclasses import replace

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines, longer_here
from lightning_gpuprof.findings.late_lines import lines_there
from lightning_gpuprof.findings.model import Finding, Where
from lightning_gpuprof.records.phases import Phase

MIN_FRAC = 0.25
"""A line with less of its phase's samples, or calls, is one of many."""
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
LOOPS = ("host-bound", "small-kernels", "host-sync")
"""Findings that lie in loops of the forward pass: in the line seen most often there."""


def attribute(name: str) -> str:
    """Return a module's name as `training_step` would write it.

    >>> attribute("net.layers.0.1")
    'self.net.layers[0][1]'
    """
    return "self." + re.sub(r"\.(\d+)(?![^.])", r"[\1]", name)


def with_lines(finding: Finding, run: RunResults) -> Finding:
    """Return a finding with the lines of its phase, where samples show them and it names none."""
    if any(where.file for where in finding.where):
        return finding
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
