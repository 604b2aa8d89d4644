"""Logging takes a noticeable share of every step.

## What it measures
`logging_ns`: mean time per steady step inside the loggers (`log_metrics`, `save`), in `self.log`
where it was timed, and in the module's hooks around the optimizer's step where they only compute
norms to log, on the host clock. By themselves, with their line: the calls of a logger's
`experiment` (`self.logger.experiment.add_image(...)`) that `training_step` or a validation makes.

## Why it matters
Loggers write files or talk to a server in the training loop. A norm of every gradient is an
operator per parameter, and turning values into numbers makes the host wait for the device.

## What to do
Log one step in 50 (`Trainer(log_every_n_steps=50)`), guard what is computed for logging alone with
the same condition, and keep values on the device until then (`DeferredLoss`). What is logged with
`on_epoch=True` has its mean over the steps in which it is logged: where that should be all of them,
add detached values up and log their mean once, in `on_train_epoch_end`. With several ranks
`sync_dist=True` makes all of them wait for each other in each such call: leave it out of what is
logged in each step, and keep it for the epoch's means.

## Thresholds
`EVERY_N_STEPS`: Lightning's own default, and the batches whose values a Trainer hands on: where it
asks for no more, the calls of a logger are the program's own and get a condition. `USUAL_NS`: a few
values given to `self.log` in each step are what every program has, and their share is large where
the step is short: the severity goes by what logging takes beside that. The saving is that of the
change proposed: the Trainer's setting leaves the calls of `self.log` as they are, and of loggers
what comes in one step of 50; of the program's own calls only those in more steps count than the
Trainer hands values on in. Who waits in `self.log(sync_dist=True)` for a rank that is late would
wait for it elsewhere: that is `straggler-rank`'s. A hook counts where norms were taken and, if its
lines were sampled, one of them logs. Of what is done in one step of `EVERY_N_STEPS` that share
stays, and no more: the time itself is known as well as any phase's (`savings/hidden.py`). At most
what threads of the loggers' own (`_WRITERS`) compute goes as well: one thread at a time runs
Python. Calls of an `experiment` are proposed in one step of 50, or a fifth as often (`FEWER`,
`findings/grade.py`) where they are made in fewer steps already, or in validation. Severity: the
common scale (`findings/grade.py`).
"""

import re
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.host_lines import HostLines, host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.phase_split import Part, PerStep
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.grade import FEWER, grade, seldom
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    When,
    Where,
)
from lightning_gpuprof.records.notes import SYNCED_NOTE, last_noted
from lightning_gpuprof.records.phases import EXPERIMENT, SELF_LOG, Phase
from lightning_gpuprof.units import duration, percent, spread

ID = "slow-logging"
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "curves have fewer points")
EVERY_N_STEPS = 50
LOGGED = f"(self.trainer.fit_loop.total_batch_idx + 1) % {EVERY_N_STEPS} == 0"
"""Holds in the batches whose values a Trainer hands on: the 50th, the 100th... With `global_step` a
value would be handed on 49 steps late, and be counted with each of several optimizers."""
USUAL_NS = 1_000_000
"""Three values a step: one call took 0.30 to 0.32 ms on a quiet machine, whatever its arguments
(docs/adr/0030)."""
MOST_NAMES = 3
NORM_HOOKS = ("on_before_optimizer_step", "on_after_backward")
"""Where Lightning's documentation puts the logging of gradient norms."""
MIN_SAMPLES = 10
"""Samples in those hooks of which one at least would be at a logging line."""
_WRITERS = re.compile(r"(^|/)(tensorboardX?|wandb|mlflow|comet_ml|neptune|clearml|aim|swanlab)/")
"""Packages whose threads write or send what a logger is handed."""
NORMS = ("aten::linalg_vector_norm", "aten::norm", "aten::_foreach_norm")
EXPLAINS = ("host-sync", "step-time-jitter")
"""What is done there in each step, or in one of many, is timed by its name."""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return findings where logging costs time: all of it, and calls that the program makes."""
    logging, step_ns = run.per_step(Phase.LOGGING), run.step_ns
    if logging is None or step_ns is None:
        return Abstained(ID, "no step's logging was measured")
    own = [_by_experiment(run, step_ns, phase) for phase in (Phase.LOGGING, Phase.VALIDATION)]
    found = (_as_usual(run, step_ns, logging), *own)
    return tuple(one for one in found if one is not None) or None


def _as_usual(run: RunResults, step_ns: int, logging: PerStep) -> Finding | None:
    """Return a finding of loggers, `self.log` and hooks that take norms."""
    hooks, own = norm_hooks(run), _calls(run, Phase.LOGGING)
    mean_ns = logging.mean_ns - sum(one.mean_ns for _, one in own)
    # Without its longest step: a logger imports and opens what it needs when it is first called.
    longest_ns = max(0, logging.max_ns - sum(one.max_ns for _, one in own))
    waited_ns = run.rank_waits.log_waited_ns.get(run.start.rank, 0) if run.rank_waits else 0
    cost_ns = max(0, mean_ns - longest_ns // (run.every.steps if run.every else 1) - waited_ns)
    cost_ns += sum(part.per_step.mean_ns for part in hooks if part.per_step)
    if not cost_ns:
        return None
    loggers = [part for part in run.parts_of(Phase.LOGGING) if part.per_step is not None]
    loggers = [part for part in loggers if not part.name.startswith(EXPERIMENT)]
    called_ns = sum(p.per_step.mean_ns for p in loggers if p.name == SELF_LOG and p.per_step)
    called_ns = max(0, called_ns - waited_ns)
    names = [part.name for part in (*loggers, *hooks)]
    change = _change(run, cost_ns - called_ns, called_ns, hooks[0].name if hooks else None)
    # Of the change proposed: what it leaves as it is saves nothing.
    goes_ns = _seldom_ns(cost_ns)
    if not hooks:
        goes_ns = _goes_ns(run, change, called_ns=called_ns, cost_ns=cost_ns)
    if not goes_ns:
        return None  # loggers are handed values seldom already
    saving = _saving(run, goes_ns, _written_ns(run, step_ns, change, cost_ns - called_ns))
    usual_ns = min(called_ns, USUAL_NS, cost_ns) if hooks or "self.log(" in change else 0
    return Finding(
        id=ID,
        severity=grade(_beside(saving, min(1.0, _seldom_ns(usual_ns) / goes_ns)), step_ns),
        title=f"Logging ({', '.join(names[:3]) or 'loggers'}) takes {duration(cost_ns)} of each "
        f"step "
        f"({percent(cost_ns / step_ns)})",
        advice=_advice(usual=2 * usual_ns >= cost_ns, guarded=not hooks and "self.log(" in change)
        + ("" if hooks else _setting_alone(run, change, cost_ns - called_ns))
        + _synced(run),
        evidence={
            "logging_ns": cost_ns,
            "logging_frac": cost_ns / step_ns,
            "logged_steps_count": max((part.active_steps for part in loggers), default=0),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.7 if hooks else 0.9,
        where=tuple(Where(phase=part.phase.value, name=part.name) for part in (*loggers, *hooks)),
        change=change,
        explains=EXPLAINS,
    )


def _written_ns(run: RunResults, step_ns: int, change: str, loggers_ns: int) -> int:
    """Return what loggers' own threads compute per step, of what a change takes off them.

    At most as long the training thread waits for Python's lock, or for the core.
    """
    lines = host_lines(run.notes)
    threads = lines.threads if lines is not None else None
    if threads is None or loggers_ns <= 0:
        return 0
    cpu_ns = sum(one.cpu_ns for one in threads.others if _WRITERS.search(one.file))
    goes_frac = _loggers_go_ns(run, change, loggers_ns) / loggers_ns
    return round(goes_frac * step_ns * cpu_ns / max(1, threads.watched_ns))


def _calls(run: RunResults, phase: Phase) -> list[tuple[str, PerStep]]:
    """Return the program's own calls of a logger's `experiment`, the longest first."""
    return [
        (part.name, part.per_step)
        for part in run.parts_of(phase)
        if part.name.startswith(EXPERIMENT) and part.per_step is not None
    ]


def _by_experiment(run: RunResults, step_ns: int, phase: Phase) -> Finding | None:
    """Return a finding of the calls that the program makes in its steps, or in validation."""
    calls = _calls(run, phase)
    # In validation they are timed in every step, else in marked ones alone.
    steps = run.steps.dur.count if run.steps else 1
    if phase is Phase.VALIDATION and run.every:
        steps = run.every.steps
    # Without the longest: it imports what draws.
    cost_ns = sum(one.mean_ns - one.max_ns // steps for _, one in calls)
    if cost_ns <= 0:
        return None
    name, first = calls[0]
    apart = max(1, round(1 / first.active_frac)) if first.active_frac else 1
    every = FEWER if phase is Phase.VALIDATION else seldom(apart, 1, wanted=EVERY_N_STEPS)
    left_frac = 1 / FEWER if phase is Phase.VALIDATION else apart / every
    lost = exposed(run, phase, cost_ns)
    saving = Range(
        low=round((1 - left_frac) * lost.low_ns), high=round((1 - left_frac) * lost.high_ns)
    )
    names = ", ".join(name for name, _ in calls[:MOST_NAMES])
    often = "in each step" if apart == 1 else f"in one of {apart} steps"
    if phase is Phase.VALIDATION:
        often = "in validation"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{names}, called {often}, takes {duration(cost_ns)} of each step on average "
        f"({percent(cost_ns / step_ns)})",
        advice=_seldom_called(phase, every),
        evidence={
            "experiment_ns": cost_ns,
            "experiment_frac": cost_ns / step_ns,
            "steps_between_count": apart,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=(
            *_lines(run, phase, [name for name, _ in calls]),
            *(Where(phase=phase.value, name=name) for name, _ in calls[:MOST_NAMES]),
        ),
        change=_guarded_call(phase, name, every),
        when=When.ALSO_BETWEEN if phase is Phase.VALIDATION else When.IN_STEPS,
        explains=EXPLAINS,
    )


def _seldom_called(phase: Phase, every: int) -> str:
    if phase is Phase.VALIDATION:
        return (
            "Draw for the first batch alone, and in one validation of a few: what is drawn for "
            "each is seldom looked at."
        )
    return (
        f"Make the call in one step of {every}, with all that is computed for it alone, or once "
        "per epoch. It is the program's own: Trainer(log_every_n_steps=...) does not touch it."
    )


def _guarded_call(phase: Phase, name: str, every: int) -> str:
    call = f"self.logger.{name}(...)"
    if phase is Phase.VALIDATION:
        return f"if batch_idx == 0 and self.current_epoch % {every} == 0:\n    {call}"
    own = "" if every == EVERY_N_STEPS else "  # in place of its condition"
    return f"if {LOGGED.replace(str(EVERY_N_STEPS), str(every))}:{own}\n    {call}"


def _lines(run: RunResults, phase: Phase, names: Sequence[str]) -> tuple[Where, ...]:
    """Return the lines of these calls, where samples show them."""
    lines, called = host_lines(run.notes), {name.removeprefix(EXPERIMENT) for name in names}
    seen = [] if lines is None else lines.of(phase)
    ours = (one for one in seen if (one.callee or "").rpartition(".")[2] in called)
    at = {(one.file, one.line): one for one in ours if one.count >= LEAST_COUNT}
    return tuple(Where.at(one, phase=phase.value) for one in [*at.values()][:MOST_NAMES])


def _synced(run: RunResults) -> str:
    """Tell of values that all ranks exchange in each step, where some are."""
    synced = last_noted(run.notes, SYNCED_NOTE, tuple[str, ...])
    if not synced:
        return ""
    return (
        f" Leave sync_dist=True out of what is logged in each step ({', '.join(synced)}): all "
        "ranks wait for each other in each such call. An epoch's mean (on_step=False, "
        "on_epoch=True) needs it once."
    )


def _change(run: RunResults, loggers_ns: int, called_ns: int, hook: str | None) -> str:
    """Return code for what takes longest: a hook of the module, `self.log` or a logger.

    Calls that take no longer than `USUAL_NS` are what every program has: not they, but loggers that
    take more than the calls beside that are what to call less often.
    """
    if hook is not None:
        return _guarded(hook)
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
    """Return the cost of what a change touches: calls of `self.log`, loggers, or both.

    A Trainer's setting leaves the calls as they are, and a condition around them the loggers that
    are handed values seldom already.
    """
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


def _saving(run: RunResults, goes_ns: int, written_ns: int) -> Range:
    lost = exposed(run, Phase.LOGGING, goes_ns)
    return Range(low=lost.low_ns, high=lost.high_ns + written_ns)


def _setting_alone(run: RunResults, change: str, loggers_ns: int) -> str:
    """Say what the first line of a change of two saves without the second."""
    if "Trainer(" not in change or "self.log(" not in change:
        return ""
    written_ns = _written_ns(run, run.step_ns or 0, change, loggers_ns)
    alone = _saving(run, _loggers_go_ns(run, change, loggers_ns), written_ns)
    return (
        f" Of this the Trainer's setting alone saves {spread(alone.low, alone.high)}: it leaves "
        "the calls of self.log as they are."
    )


def _beside(saving: Range, usual_frac: float) -> Range:
    """Return the saving without the part that every program pays."""
    left = 1 - usual_frac
    return Range(low=round(left * saving.low), high=round(left * saving.high))


def _advice(*, usual: bool, guarded: bool) -> str:
    advice = (
        f"Log one step in {EVERY_N_STEPS}, and compute what is only logged (norms, histograms) in "
        "those steps alone."
    )
    if guarded:
        advice += (
            " With on_epoch=True the mean is then over those steps alone: for all steps, sum up "
            "detached values and log their mean in on_train_epoch_end."
        )
    if not usual:
        return advice
    return (
        "A few values in each step are what every program logs, and no fault: it shows because "
        f"steps are short, and a larger batch makes fewer of them. {advice}"
    )


def norm_hooks(run: RunResults) -> list[Part]:
    """Return the module's hooks that take norms of the gradients, to log them.

    Where samples of the stack show the hooks and no logging in them, the norms are for something
    else, such as a clipping of the module's own: to do that seldom would be another training.
    """
    facts = trace_facts(run)
    if facts is None:
        return []
    if not any(name in facts.operators for name in NORMS):
        return []
    lines = host_lines(run.notes)
    if lines is not None and not _log_in_hooks(lines):
        return []
    parts = run.parts_of(Phase.OTHER)
    return [part for part in parts if part.name in NORM_HOOKS and part.per_step is not None]


def _log_in_hooks(lines: HostLines) -> bool:
    """Tell whether one of the hooks' lines logs, or too few were seen to say."""
    seen = lines.of(Phase.OTHER)
    if sum(one.count for one in seen) < MIN_SAMPLES:
        return True
    if any(one.function in NORM_HOOKS for one in lines.of(Phase.LOGGING)):
        return True
    return any(one.kind == "lightning" or "log" in one.source for one in seen)


def _guarded(hook: str) -> str:
    return f"def {hook}(self, *args):\n    if {LOGGED}:\n        ...  # as before"
