"""Training has become slower since some step.

## Symptom
The first epochs are fast, and the same steps are slower later: all of them, more and more from step
to step, or single steps again and again.

## Why
Something has begun that was not there before: a callback or a logger that does more from some step
on, a list that each step goes through, data that is no longer in memory, another program on the
same cores. Means and medians of a whole run hide it, and the longer the run the more it costs.

## Fix
Look at what begins at the step that is named: a condition on the step or the epoch, a list that is
appended to, a file that grows.

```python
if self.global_step > 4_000: self.history.append(outputs); plot(self.history)  # before
if self.global_step % 1_000 == 0: plot(self.last)  # after: bounded, and far less often
```

If other programs wait for the same cores, give each job cores of its own (`taskset`, the
scheduler's settings), or fewer workers and threads.

## How it is measured
Steps are compared with those before by the medians of blocks, in every phase, at equal sizes of
batches. Steps with a validation, a checkpoint, a compilation or a profiler, and the first of an
epoch, are left out. A change counts if it takes 3% of the step, and is far larger than blocks
differ before it and since. `since_step_count` is the first slow step. The line is that whose share
of the samples has grown most. `until_end_ns` is what it costs until the planned end. The saving
lies between the cost per step so far and that of the last steps.

## Limits
If all phases slow down together, and training does not wait for cores longer than before, the
machine is slower: this is reported from half of the step on. A change in the first fiftieth of a
run is not seen. Of several slow-downs the one that has cost most is reported.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.slow_causes import SlowDownCause
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Place,
    Range,
    Severity,
)
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.units import duration, quantity

EFFORT = Effort(Horizon.QUICK, "what begins at one step is bounded or done less often", "none")
STEP, RAMP, SPIKES = "step", "ramp", "spikes"
PAST = "steps {since:,} to {until:,} were slower by {more}{where}; that has ended"
LINE = "{file}:{line} (`{source}`) takes {during} per step since then, and took {before} before. "
WHAT = {
    STEP: "Find what begins at step {since:,}{where}: a condition on the step or epoch, more work "
    "per call, data that is no longer cached.",
    RAMP: "What each step goes through{where} grows: bound a list, a dictionary or a file, or "
    "keep running sums instead.",
    SPIKES: "Find what the program does every {every:,} steps since then{where}, and do it less "
    "often or make it cheaper.",
}
OTHERS = (
    "Other programs use the same cores since then: the training thread waited for a core "
    "{before} of the time before, and {during} since. Give the job cores of its own."
)
MACHINE = (
    "All phases take longer together: look for other programs on this machine, for cores or a GPU "
    "that are clocked down, and for a lower CPU quota."
)
WINDOW = "the run is slower behind a profiler window, which its notice reports"
AT_WINDOW_STEPS = 20
QUEUED = "waiting_for_a_core_frac"
LESS_SURE = (
    "step-time-jitter", "growing-step", "unexplained-share", "slow-python", "thread-contention",
    "slow-callback", "slow-logging", "data-wait", "costly-line", "host-bound",
)  # fmt: skip
"""Findings that know less about the same time, if most of it is that of the slow-down."""


@rule(id="slowed-down", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | Abstained | None:
    """Return the finding about the slow-down that costs most."""
    cause = run.slow_down
    if cause is None or run.steps is None:
        return None
    slow_down = cause.slow_down
    where = f", mostly in {slow_down.phase}" if slow_down.phase else ""
    if slow_down.until_step is not None:
        return Abstained(
            "",
            PAST.format(
                since=slow_down.since_step,
                until=slow_down.until_step,
                more=duration(slow_down.more_ns),
                where=where,
            ),
        )
    behind = run.variation.behind_window
    if behind is not None and abs(slow_down.since_step - behind.since_step) <= AT_WINDOW_STEPS:
        return Abstained("", WINDOW)
    ran = max(1, run.steps.ran)
    since_frac = max(0.0, 1 - slow_down.since_step / ran)
    shape = slow_down.shape.value
    so_far_ns = round(slow_down.more_ns * since_frac * (0.5 if shape == RAMP else 1.0))
    cost = Range(min(so_far_ns, slow_down.more_ns), slow_down.more_ns)
    places = []
    if cause.line is not None:
        places.append(Place.at(cause.line, phase=slow_down.phase))
    if slow_down.phase is not None:
        places.append(Place(phase=slow_down.phase))
    return Finding(
        severity=Severity.BY_SAVING,
        title=_title(cause, where),
        advice=_advice(cause),
        evidence=_evidence(run, cause),
        saving_ns=cost,
        cause_ns=cost,
        of_step_ns=max(slow_down.before_ns + slow_down.more_ns, run.step_ns or 0),
        confidence=0.8 if cause.line is not None else 0.6,
        places=tuple(places),
        explains=LESS_SURE,
    )


def _title(cause: SlowDownCause, where: str) -> str:
    slow_down = cause.slow_down
    since = f"since step {slow_down.since_step:,}"
    shape = slow_down.shape.value
    if shape == SPIKES:
        height = duration(measured(slow_down.height_ns))
        return f"Every {slow_down.every_steps:,} steps {height} more {since}{where}"
    if shape == RAMP:
        more = duration(measured(slow_down.per_100_steps_ns))
        return f"Steps take {more} more every 100 steps {since}{where}"
    more = duration(slow_down.more_ns)
    return f"Steps take {more} longer {since}{where}"


def _advice(cause: SlowDownCause) -> str:
    slow_down, line = cause.slow_down, cause.line
    if slow_down.phase is None:
        if QUEUED not in cause.changed:
            return MACHINE
        before, during = (quantity(QUEUED, value) for value in cause.changed[QUEUED])
        return OTHERS.format(before=before, during=during)
    text = ""
    if line is not None:
        text = LINE.format(
            file=short_path(line.file),
            line=line.line,
            source=line.source,
            during=duration(cause.line_during_ns),
            before=duration(cause.line_before_ns) if cause.line_before_ns else "nothing",
        )
    text += WHAT[slow_down.shape.value].format(
        since=slow_down.since_step, every=slow_down.every_steps, where=f" in {slow_down.phase}"
    )
    if cause.epoch is not None:
        text += f" Epoch {cause.epoch} begins there."
    return text


def _evidence(run: RunResults, cause: SlowDownCause) -> dict[str, int | float]:
    slow_down = cause.slow_down
    evidence: dict[str, int | float] = {
        "since_step_count": slow_down.since_step,
        "step_before_ns": slow_down.before_ns,
        "step_since_ns": slow_down.during_ns,
    }
    for name, figure in (
        ("more_per_100_steps_ns", slow_down.per_100_steps_ns),
        ("spikes_every_steps_count", slow_down.every_steps),
        ("spike_height_ns", slow_down.height_ns),
    ):
        if figure is not None:
            evidence[name] = figure
    for phase, shift in slow_down.phases.items():
        evidence[f"{phase}_before_ns"] = shift.before_ns
        evidence[f"{phase}_since_ns"] = shift.during_ns
    if cause.line is not None:
        evidence["line_before_ns"] = cause.line_before_ns
        evidence["line_since_ns"] = cause.line_during_ns
    for name, (before, during) in cause.changed.items():
        stem, _, unit = name.rpartition("_")
        evidence[f"{stem}_before_{unit}"] = before
        evidence[f"{stem}_since_{unit}"] = during
    planned = settings_of(run.start).max_steps
    if planned is not None and run.steps is not None and planned > run.steps.ran:
        evidence["until_end_ns"] = (planned - run.steps.ran) * slow_down.more_ns
    return evidence
