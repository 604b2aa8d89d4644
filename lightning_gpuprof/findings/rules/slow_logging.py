"""Logging takes a noticeable share of every step.

## Symptom
Loggers, `self.log`, calls of a logger's `experiment`, or hooks that compute norms for logging take
long.

## Why
Loggers write files or talk to a server in the training loop. The norm of every gradient is an
operator per parameter, and reading a value makes the host wait for the device.

## Fix
```python
Trainer(log_every_n_steps=1)  # before
Trainer(log_every_n_steps=50)  # after; compute what is only logged in those steps alone
```

Use `sync_dist=True` only for means of the epoch.

## How it is measured
`logging_ns` is the time per step in loggers, in `self.log` and in such hooks, without the first
call, which imports what it needs. The saving is that of the proposed change: one step in 50 leaves
2% of it. The Trainer's setting does not change `self.log`.

## Limits
A few values per step are usual, so the severity goes by the time beyond 1 ms.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT
from lightning_gpuprof.analysis.run.phase_split import PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.findings.grade import FEWER, grade, seldom
from lightning_gpuprof.findings.hooks import norm_hooks
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.findings.trial_commands import DEFERRED
from lightning_gpuprof.records.phases import EXPERIMENT, SELF_LOG, Phase
from lightning_gpuprof.units import duration, percent

EVERY_N_STEPS = 50
LOGGED = f"(self.trainer.fit_loop.total_batch_idx + 1) % {EVERY_N_STEPS} == 0"
"""A condition that holds in the batches whose values the Trainer logs: the 50th, the 100th..."""
USUAL_NS = 1_000_000
"""Logging three values per step: a call took 0.3 ms on a quiet machine (docs/adr/0030)."""
MOST_NAMES = 3
EXPLAINS = ("host-sync", "step-time-jitter")
ADVICE = (
    f"Log one step in {EVERY_N_STEPS}, and compute what is only logged (norms, histograms) in "
    "those steps alone."
)
MEANS = (
    " With on_epoch=True the mean then covers only those steps: for all steps, sum detached values "
    "and log their mean in on_train_epoch_end."
)
SYNCED = (
    " Do not log with sync_dist=True in each step ({names}): all ranks wait for each other in each "
    "such call."
)
USUAL = "A few values per step are usual; these steps are short. "
IN_STEPS = (
    "Make this call, and compute what only it needs, in one step of {every}. "
    "Trainer(log_every_n_steps=...) does not affect it."
)
IN_VALIDATION = "Draw only for the first batch, and only in one validation of a few."
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "curves have fewer points")
CALLS_EFFORT = Effort(Horizon.QUICK, "a condition around the calls", "curves have fewer points")
EXPERIMENT_EFFORT = Effort(
    Horizon.QUICK, "a condition around the call", "what it logs comes less often"
)


@rule(id="slow-logging", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return findings about loggers and `self.log`, and about calls of a logger's experiment."""
    findings = (
        _by_loggers(run),
        _by_experiment(run, Phase.LOGGING),
        _by_experiment(run, Phase.VALIDATION),
    )
    return tuple(finding for finding in findings if finding is not None)


def _by_loggers(run: RunResults) -> Finding | None:
    """Return the finding about loggers, `self.log` and hooks that compute norms."""
    logging, step_ns = run.per_step(Phase.LOGGING), measured(run.step_ns)
    if logging is None:
        return None
    hooks = norm_hooks(run)
    # Calls of the logger's experiment have a finding of their own.
    apart = [per_step for _, per_step in _experiment_calls(run, Phase.LOGGING)]
    mean_ns = logging.mean_ns - sum(per_step.mean_ns for per_step in apart)
    # Without the longest step: a logger's first call imports and opens what it needs.
    longest_ns = max(0, logging.max_ns - sum(per_step.max_ns for per_step in apart))
    logs = [part.per_step for part in run.parts_of(Phase.LOGGING) if part.name == SELF_LOG]
    called_ns = sum(per_step.mean_ns for per_step in logs if per_step is not None)
    # A rank that waits for a late rank in self.log(sync_dist=True) would otherwise wait for it
    # somewhere else, so this wait is no cost of logging. If the records of some ranks are missing,
    # all of the time in such calls may be waiting.
    waited_ns = called_ns if run.lacks_ranks and run.facts.synced_logs else 0
    if run.ranks.waits is not None:
        waited_ns = run.ranks.waits.log_waited_ns.get(run.start.rank, 0)
    cost_ns = max(0, mean_ns - longest_ns // (run.every.steps if run.every else 1) - waited_ns)
    cost_ns += sum(part.per_step.mean_ns for part in hooks if part.per_step)
    if not cost_ns:
        return None
    loggers = [part for part in run.parts_of(Phase.LOGGING) if part.per_step is not None]
    loggers = [part for part in loggers if not part.name.startswith(EXPERIMENT)]
    called_ns = max(0, called_ns - waited_ns)
    change = _change(run, cost_ns, called_ns, hooks[0].name if hooks else None)
    if not change.goes_ns:
        return None  # values are logged seldom already
    lost = without_serial_work(run, Phase.LOGGING, change.goes_ns)
    usual_ns = min(called_ns, USUAL_NS, cost_ns) if change.of_calls else 0
    left = 1 - min(1.0, _seldom_ns(usual_ns) / change.goes_ns)
    means = change.of_calls and not hooks
    names = [part.name for part in (*loggers, *hooks)]
    return Finding(
        severity=grade(Range(round(left * lost.low_ns), round(left * lost.high_ns)), step_ns),
        title=f"Logging takes {duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=_advice(run, names, usual=2 * usual_ns >= cost_ns, means=means),
        evidence={"logging_ns": cost_ns},
        saving_ns=Range(low=lost.low_ns, high=lost.high_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.7 if hooks else 0.9,
        places=tuple(Place(phase=part.phase.value, name=part.name) for part in (*loggers, *hooks)),
        change=change.code,
        setting=change.setting,
        effort=EFFORT if change.sets_trainer else CALLS_EFFORT,
        explains=EXPLAINS,
    )


def _experiment_calls(run: RunResults, phase: Phase) -> list[tuple[str, PerStep]]:
    """Return the program's own calls of a logger's `experiment`, the longest first."""
    return [
        (part.name, part.per_step)
        for part in run.parts_of(phase)
        if part.name.startswith(EXPERIMENT) and part.per_step is not None
    ]


def _by_experiment(run: RunResults, phase: Phase) -> Finding | None:
    """Return the finding about the program's own calls of a logger's experiment."""
    calls, step_ns = _experiment_calls(run, phase), measured(run.step_ns)
    validates = phase is Phase.VALIDATION
    # In validation the calls of all steps are timed, otherwise those of marked steps.
    steps = run.steps.dur.count if run.steps else 1
    if validates and run.every:
        steps = run.every.steps
    # Without the longest call, which imports what draws.
    cost_ns = sum(per_step.mean_ns - per_step.max_ns // steps for _, per_step in calls)
    if cost_ns <= 0:
        return None
    name, first = calls[0]
    apart = max(1, round(1 / first.active_frac)) if first.active_frac else 1
    every = FEWER if validates else seldom(apart, 1, wanted=EVERY_N_STEPS)
    gone = 1 - (1 / FEWER if validates else apart / every)
    lost = without_serial_work(
        run, phase, apart * cost_ns, apart, gone_frac=(gone, gone), amid_epochs=not validates
    )
    names = tuple(Place(phase=phase.value, name=name) for name, _ in calls[:MOST_NAMES])
    condition = LOGGED.replace(str(EVERY_N_STEPS), str(every))
    if validates:
        condition = f"batch_idx == 0 and self.current_epoch % {every} == 0"
    return Finding(
        title=f"{name} takes {duration(cost_ns)} of each step ({percent(cost_ns / step_ns)})",
        advice=IN_VALIDATION if validates else IN_STEPS.format(every=every),
        evidence={"experiment_ns": cost_ns, "steps_between_count": apart},
        saving_ns=Range(lost.low_ns, lost.high_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.9,
        places=(*_lines(run, phase, [name for name, _ in calls]), *names),
        change=f"if {condition}:\n    self.logger.{name}(...)",
        when=When.ALSO_BETWEEN if validates else When.IN_STEPS,
        effort=EXPERIMENT_EFFORT,
        explains=EXPLAINS,
    )


def _lines(run: RunResults, phase: Phase, names: Sequence[str]) -> tuple[Place, ...]:
    """Return the sampled lines of these calls."""
    called = {name.removeprefix(EXPERIMENT) for name in names}
    sampled = run.lines.of(phase) if run.lines else []
    calling = (line for line in sampled if (line.callee or "").rpartition(".")[2] in called)
    by_line = {(line.file, line.line): line for line in calling if line.count >= LEAST_COUNT}
    return tuple(Place.at(line, phase=phase.value) for line in [*by_line.values()][:MOST_NAMES])


class _Change(NamedTuple):
    """A change, and what goes with it."""

    code: str
    goes_ns: int
    of_calls: bool = False
    """Whether the calls of a hook or of `self.log` become fewer."""
    sets_trainer: bool = False
    setting: str | None = None
    """See `Finding.setting`."""


def _change(run: RunResults, cost_ns: int, called_ns: int, hook: str | None) -> _Change:
    """Return the change for what takes longest: a hook, `self.log` or a logger.

    The Trainer's setting makes loggers get values less often, but calls of `self.log` stay.
    """
    if hook is not None:
        guarded = f"def {hook}(self, *args):\n    if {LOGGED}:\n        ...  # as before"
        return _Change(guarded, _seldom_ns(cost_ns), of_calls=True)
    asked = settings_of(run.start).log_every_n_steps
    setting = f"log_every_n_steps={EVERY_N_STEPS}"
    trainer = f"Trainer(..., {setting})"
    loggers_ns = max(0, cost_ns - called_ns)
    often = loggers_ns > 0 and 0 < asked < EVERY_N_STEPS
    setting_ns = round(loggers_ns * (1 - asked / EVERY_N_STEPS)) if often else 0
    if called_ns - (USUAL_NS if often else 0) >= loggers_ns:
        guarded = f"if {LOGGED}:\n    self.log(...)  # an on_epoch mean is then over these steps"
        goes_ns = min(cost_ns, setting_ns + _seldom_ns(called_ns))
        if often:
            both = f"{trainer}\n{guarded}"
            return _Change(both, goes_ns, of_calls=True, sets_trainer=True, setting=setting)
        return _Change(guarded, goes_ns, of_calls=True, setting=DEFERRED)
    if asked < EVERY_N_STEPS:
        return _Change(trainer, setting_ns or loggers_ns, sets_trainer=True, setting=setting)
    guarded = f"if {LOGGED}:\n    self.logger.log_metrics(...)  # each call by your own code"
    return _Change(guarded, min(loggers_ns, _own_calls_ns(run, asked)))


def _seldom_ns(cost_ns: int) -> int:
    """Return the saving if a cost stays in only one of `EVERY_N_STEPS` steps."""
    return round(cost_ns * (1 - 1 / EVERY_N_STEPS))


def _own_calls_ns(run: RunResults, asked: int) -> int:
    """Return the time of the program's own calls of loggers.

    These are the calls beyond those of the Trainer, which logs every `asked` steps and at
    validations.
    """
    if run.steps is None:
        return 0
    by_trainer = -(-run.steps.count // asked)
    by_trainer += run.every.flagged.get("validation", 0) if run.every else 0
    own_ns = (
        part.per_step.mean_ns * max(0, part.active_steps - by_trainer) / part.active_steps
        for part in run.parts_of(Phase.LOGGING)
        if part.per_step is not None and part.name != SELF_LOG and part.active_steps
    )
    return round(sum(own_ns))


def _advice(run: RunResults, names: Sequence[str], *, usual: bool, means: bool) -> str:
    """Return what to do, and who logs."""
    synced = SYNCED.format(names=", ".join(run.facts.synced_logs)) if run.facts.synced_logs else ""
    who = f" It is {', '.join(names[:MOST_NAMES])}." if names else ""
    return (USUAL if usual else "") + ADVICE + who + (MEANS if means else "") + synced
