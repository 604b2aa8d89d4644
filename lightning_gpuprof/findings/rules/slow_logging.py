"""Logging takes a noticeable share of every step.

## Symptom
Loggers, `self.log`, calls of a logger's `experiment`, or hooks that take norms to log them.

## Why
Loggers write files or talk to a server in the training loop. A norm of every gradient is an
operator per parameter, and reading a value makes the host wait for the device.

## Fix
```python
Trainer(log_every_n_steps=1)  # before
Trainer(log_every_n_steps=50)  # after; compute what is only logged in those steps alone
```

Leave `sync_dist=True` for the epoch's means.

## How it is measured
`logging_ns` per step inside the loggers, `self.log` and such hooks, without the first call, which
imports. The saving is that of the change: one step in 50 leaves 2%; the Trainer's setting leaves
`self.log` as it is.

## Limits
A few values a step are what every program logs: the severity goes by what is beyond 1 ms.
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.grade import FEWER, grade, seldom
from lightning_gpuprof.findings.hooks import norm_hooks
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, When, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import EXPERIMENT, SELF_LOG, Phase
from lightning_gpuprof.units import duration, percent

EVERY_N_STEPS = 50
LOGGED = f"(self.trainer.fit_loop.total_batch_idx + 1) % {EVERY_N_STEPS} == 0"
"""Holds in the batches whose values a Trainer hands on: the 50th, the 100th..."""
USUAL_NS = 1_000_000
"""Three values a step: one call took 0.3 ms on a quiet machine (docs/adr/0030)."""
MOST_NAMES = 3
EXPLAINS = ("host-sync", "step-time-jitter")
ADVICE = (
    f"Log one step in {EVERY_N_STEPS}, and compute what is only logged (norms, histograms) in "
    "those steps alone."
)
MEANS = (
    " With on_epoch=True the mean is then over those steps alone: for all steps, sum up detached "
    "values and log their mean in on_train_epoch_end."
)
SYNCED = (
    " Leave sync_dist=True out of what is logged in each step ({names}): all ranks wait for each "
    "other in each such call."
)
USUAL = "A few values in each step are what every program logs, and no fault: steps are short. "
IN_STEPS = (
    "Make the call in one step of {every}, with all that is computed for it alone. It is the "
    "program's own: Trainer(log_every_n_steps=...) does not touch it."
)
IN_VALIDATION = "Draw for the first batch alone, and in one validation of a few."
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "curves have fewer points")


@rule(id="slow-logging", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return findings where logging costs time: all of it, and calls that the program makes."""
    own = [_by_experiment(run, phase) for phase in (Phase.LOGGING, Phase.VALIDATION)]
    return tuple(one for one in (_as_usual(run), *own) if one is not None)


def _as_usual(run: RunResults) -> Finding | None:
    """Return a finding of loggers, `self.log` and hooks that take norms."""
    logging, step_ns = run.per_step(Phase.LOGGING), measured(run.step_ns)
    if logging is None:
        return None
    hooks, own = norm_hooks(run), _calls(run, Phase.LOGGING)
    mean_ns = logging.mean_ns - sum(one.mean_ns for _, one in own)
    # Without its longest step: a logger imports and opens what it needs when it is first called.
    longest_ns = max(0, logging.max_ns - sum(one.max_ns for _, one in own))
    # Who waits for a late rank in self.log(sync_dist=True) would wait for it elsewhere.
    waited_ns = run.rank_waits.log_waited_ns.get(run.start.rank, 0) if run.rank_waits else 0
    cost_ns = max(0, mean_ns - longest_ns // (run.every.steps if run.every else 1) - waited_ns)
    cost_ns += sum(part.per_step.mean_ns for part in hooks if part.per_step)
    if not cost_ns:
        return None
    loggers = [part for part in run.parts_of(Phase.LOGGING) if part.per_step is not None]
    loggers = [part for part in loggers if not part.name.startswith(EXPERIMENT)]
    called_ns = sum(p.per_step.mean_ns for p in loggers if p.name == SELF_LOG and p.per_step)
    called_ns = max(0, called_ns - waited_ns)
    change = _change(run, cost_ns - called_ns, called_ns, hooks[0].name if hooks else None)
    goes_ns = _seldom_ns(cost_ns)
    if not hooks:
        goes_ns = _goes_ns(run, change, called_ns=called_ns, cost_ns=cost_ns)
    if not goes_ns:
        return None  # loggers are handed values seldom already
    lost = exposed(run, Phase.LOGGING, goes_ns)
    calls = bool(hooks) or "self.log(" in change
    usual_ns = min(called_ns, USUAL_NS, cost_ns) if calls else 0
    left = 1 - min(1.0, _seldom_ns(usual_ns) / goes_ns)
    names = [part.name for part in (*loggers, *hooks)]
    return Finding(
        severity=grade(Range(round(left * lost.low_ns), round(left * lost.high_ns)), step_ns),
        title=f"Logging takes {duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=_advice(run, names, usual=2 * usual_ns >= cost_ns, means=calls and not hooks),
        evidence={
            "logging_ns": cost_ns,
            "logging_frac": cost_ns / step_ns,
            "logged_steps_count": max((part.active_steps for part in loggers), default=0),
            "step_ns": step_ns,
        },
        saving_ns=Range(low=lost.low_ns, high=lost.high_ns),
        confidence=0.7 if hooks else 0.9,
        where=tuple(Where(phase=part.phase.value, name=part.name) for part in (*loggers, *hooks)),
        change=change,
        explains=EXPLAINS,
    )


def _calls(run: RunResults, phase: Phase) -> list[tuple[str, PerStep]]:
    """Return the program's own calls of a logger's `experiment`, the longest first."""
    return [
        (part.name, part.per_step)
        for part in run.parts_of(phase)
        if part.name.startswith(EXPERIMENT) and part.per_step is not None
    ]


def _by_experiment(run: RunResults, phase: Phase) -> Finding | None:
    """Return a finding of the calls that the program makes in its steps, or in validation."""
    calls, step_ns, validates = _calls(run, phase), measured(run.step_ns), phase is Phase.VALIDATION
    # In validation they are timed in every step, else in marked ones alone.
    steps = run.steps.dur.count if run.steps else 1
    if validates and run.every:
        steps = run.every.steps
    # Without the longest: it imports what draws.
    cost_ns = sum(one.mean_ns - one.max_ns // steps for _, one in calls)
    if cost_ns <= 0:
        return None
    name, first = calls[0]
    apart = max(1, round(1 / first.active_frac)) if first.active_frac else 1
    every = FEWER if validates else seldom(apart, 1, wanted=EVERY_N_STEPS)
    gone = 1 - (1 / FEWER if validates else apart / every)
    lost = exposed(run, phase, cost_ns)
    saving = Range(low=round(gone * lost.low_ns), high=round(gone * lost.high_ns))
    names = tuple(Where(phase=phase.value, name=name) for name, _ in calls[:MOST_NAMES])
    return Finding(
        severity=grade(saving, step_ns),
        title=f"{name} takes {duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=IN_VALIDATION if validates else IN_STEPS.format(every=every),
        evidence={
            "experiment_ns": cost_ns,
            "experiment_frac": cost_ns / step_ns,
            "steps_between_count": apart,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=(*_lines(run, phase, [name for name, _ in calls]), *names),
        change=_guarded_call(phase, name, every),
        when=When.ALSO_BETWEEN if validates else When.IN_STEPS,
        explains=EXPLAINS,
    )


def _guarded_call(phase: Phase, name: str, every: int) -> str:
    call = f"self.logger.{name}(...)"
    if phase is Phase.VALIDATION:
        return f"if batch_idx == 0 and self.current_epoch % {every} == 0:\n    {call}"
    own = "" if every == EVERY_N_STEPS else "  # in place of its condition"
    return f"if {LOGGED.replace(str(EVERY_N_STEPS), str(every))}:{own}\n    {call}"


def _lines(run: RunResults, phase: Phase, names: Sequence[str]) -> tuple[Where, ...]:
    """Return the lines of these calls, where samples show them."""
    called = {name.removeprefix(EXPERIMENT) for name in names}
    seen = run.lines.of(phase) if run.lines else []
    ours = (one for one in seen if (one.callee or "").rpartition(".")[2] in called)
    at = {(one.file, one.line): one for one in ours if one.count >= LEAST_COUNT}
    return tuple(Where.at(one, phase=phase.value) for one in [*at.values()][:MOST_NAMES])


def _change(run: RunResults, loggers_ns: int, called_ns: int, hook: str | None) -> str:
    """Return code for what takes longest: a hook of the module, `self.log` or a logger."""
    if hook is not None:
        return f"def {hook}(self, *args):\n    if {LOGGED}:\n        ...  # as before"
    asked = run.start.trainer.get("log_every_n_steps", 0)
    setting = f"Trainer(..., log_every_n_steps={EVERY_N_STEPS})"
    often = loggers_ns > 0 and 0 < asked < EVERY_N_STEPS
    if called_ns - (USUAL_NS if often else 0) >= loggers_ns:
        # The Trainer's setting leaves these calls as they are. Without it, loggers that it hands
        # values more often get the last ones over and over.
        guarded = f"if {LOGGED}:\n    self.log(...)  # an on_epoch mean is then over these steps"
        return f"{setting}\n{guarded}" if often else guarded
    if asked >= EVERY_N_STEPS:
        return f"if {LOGGED}:\n    self.logger.log_metrics(...)  # each call by your own code"
    return setting


def _goes_ns(run: RunResults, change: str, *, called_ns: int, cost_ns: int) -> int:
    """Return the cost of what a change touches: calls of `self.log`, loggers, or both."""
    calls_ns = _seldom_ns(called_ns) if "self.log(" in change else 0
    return min(cost_ns, calls_ns + _loggers_go_ns(run, change, cost_ns - called_ns))


def _seldom_ns(cost_ns: int) -> int:
    """Return what goes of a cost of each step that is left in one of `EVERY_N_STEPS`."""
    return round(cost_ns * (1 - 1 / EVERY_N_STEPS))


def _loggers_go_ns(run: RunResults, change: str, loggers_ns: int) -> int:
    """Return what a change takes off the loggers' time."""
    asked: int = run.start.trainer.get("log_every_n_steps", 0)
    if "Trainer(" in change:
        return round(max(0, loggers_ns) * (1 - asked / EVERY_N_STEPS))
    if "log_metrics(" not in change or run.steps is None:
        return 0
    # What the Trainer hands on, at each validation too, is not the program's own.
    handed = -(-run.steps.count // asked)
    handed += run.every.flagged.get("validation", 0) if run.every else 0
    own_ns = (
        part.per_step.mean_ns * max(0, part.active_steps - handed) / part.active_steps
        for part in run.parts_of(Phase.LOGGING)
        if part.per_step is not None and part.name != SELF_LOG and part.active_steps
    )
    return min(max(0, loggers_ns), round(sum(own_ns)))


def _advice(run: RunResults, names: Sequence[str], *, usual: bool, means: bool) -> str:
    """Return what to do, and who logs."""
    synced = SYNCED.format(names=", ".join(run.synced_logs)) if run.synced_logs else ""
    who = f" It is {', '.join(names[:MOST_NAMES])}." if names else ""
    return (USUAL if usual else "") + ADVICE + who + (MEANS if means else "") + synced
