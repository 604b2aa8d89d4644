"""How much of a step is spent at every line of the program, by samples of the training thread."""

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT, LineTime, times_at_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase


def line_times(run: RunResults) -> tuple[LineTime, ...]:
    """Return the sampled lines of the program, those that take longest first.

    A line at which the thread waits for other ranks takes no time itself.
    """
    step_ns = run.step_ns
    if run.lines is None or not step_ns:
        return ()
    per_step = {phase: stats.per_step for phase, stats in run.phases.items()}
    return times_at_lines(run.lines, per_step, step_ns)


def unlisted_ns(run: RunResults) -> int | None:
    """Return an upper bound of the time per step at any line that `line_times` leaves out.

    Such a line has fewer samples than `LEAST_COUNT`, and samples in doubt may belong to it. None
    if the bound is no less than the time at the longest line that is listed.
    """
    listed, bound_ns = line_times(run), 0.0
    if run.lines is None or not listed:
        return None
    functions = {
        (samples.phase, samples.file, samples.function): samples for samples in run.lines.lines
    }
    for samples in functions.values():
        phase = Phase(samples.phase)
        per_step = run.per_step(phase)
        count = min(LEAST_COUNT - 1, run.lines.by_phase[samples.phase])
        unlisted = replace(samples, line=0, count=count, doubt=0)
        high_frac = run.lines.interval([unlisted], phase)[1]
        bound_ns = max(bound_ns, high_frac * (per_step.mean_ns if per_step else 0))
    return round(bound_ns) if bound_ns < listed[0].mean_ns else None
