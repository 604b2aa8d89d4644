"""Logging takes a noticeable share of every step.

## What it measures
`logging_ns`: mean time per steady step inside the loggers (`log_metrics`, `save`), in `self.log`
where it was timed, and in the module's hooks around the optimizer's step where they only compute
norms to log, on the host clock.

## Why it matters
Loggers write files or talk to a server in the training loop. A norm of every gradient is an
operator per parameter, and turning values into numbers makes the host wait for the device.

## What to do
Log one step in 50 (`Trainer(log_every_n_steps=50)`), guard what is computed for logging alone with
the same condition, and keep values on the device until then (`DeferredLoss`). What is logged with
`on_epoch=True` has its mean over the steps in which it is logged: where that should be all of them,
add detached values up and log their mean once, in `on_train_epoch_end`.

## Thresholds
`EVERY_N_STEPS`: Lightning's own default, and the batches whose values a Trainer hands on: where it
asks for no more, the calls of a logger are the program's own and get a condition. `USUAL_NS`: a few
values given to `self.log` in each step are what every program has, and their share is large where
the step is short: the severity goes by what logging takes beside that. The saving is that of the
change proposed: the Trainer's setting leaves the calls of `self.log` as they are, and of loggers
what comes in one step of 50; of the program's own calls only those in more steps count than the
Trainer hands values on in. A hook counts
where norms were taken and, if its lines were sampled, one of them logs. `LOW_FRAC`: at least that
of the cost goes with logging less often, as something is logged still. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.host_lines import HostLines, host_lines
from lightning_gpuprof.analysis.run.phase_split import Part
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Where,
)
from lightning_gpuprof.records.phases import SELF_LOG, Phase
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
LOW_FRAC = 0.8
NORM_HOOKS = ("on_before_optimizer_step", "on_after_backward")
"""Where Lightning's documentation puts the logging of gradient norms."""
MIN_SAMPLES = 10
"""Samples in those hooks of which one at least would be at a logging line."""
NORMS = ("aten::linalg_vector_norm", "aten::norm", "aten::_foreach_norm")


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where logging costs time."""
    logging, step_ns = run.per_step(Phase.LOGGING), run.step_ns
    if logging is None or step_ns is None:
        return Abstained(ID, "no step's logging was measured")
    hooks = norm_hooks(run)
    # Without its longest step: a logger imports and opens what it needs when it is first called.
    again_ns = logging.mean_ns - logging.max_ns // (run.steps.dur.count if run.steps else 1)
    cost_ns = again_ns + sum(part.per_step.mean_ns for part in hooks if part.per_step)
    if not cost_ns:
        return None
    loggers = [part for part in run.parts_of(Phase.LOGGING) if part.per_step is not None]
    called_ns = sum(p.per_step.mean_ns for p in loggers if p.name == SELF_LOG and p.per_step)
    names = [part.name for part in (*loggers, *hooks)]
    change = _change(run, cost_ns - called_ns, called_ns, hooks[0].name if hooks else None)
    # Of the change proposed: what it leaves as it is saves nothing.
    goes_ns = cost_ns if hooks else _goes_ns(run, change, called_ns=called_ns, cost_ns=cost_ns)
    if not goes_ns:
        return None  # loggers are handed values seldom already
    saving = _saving(run, goes_ns)
    usual_ns = min(called_ns, USUAL_NS, goes_ns) if hooks or "self.log(" in change else 0
    return Finding(
        id=ID,
        severity=grade(_beside(saving, usual_ns / max(1, goes_ns)), step_ns),
        title=f"Logging ({', '.join(names[:3]) or 'loggers'}) takes {duration(cost_ns)} of each "
        f"step "
        f"({percent(cost_ns / step_ns)})",
        advice=_advice(usual=usual_ns == cost_ns, guarded=not hooks and "self.log(" in change)
        + ("" if hooks else _setting_alone(run, change, cost_ns - called_ns)),
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
    calls_ns = called_ns if "self.log(" in change else 0
    return min(cost_ns, calls_ns + _loggers_go_ns(run, change, cost_ns - called_ns))


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


def _saving(run: RunResults, goes_ns: int) -> Range:
    lost = exposed(run, Phase.LOGGING, goes_ns)
    return Range(low=round(LOW_FRAC * lost.low_ns), high=lost.high_ns)


def _setting_alone(run: RunResults, change: str, loggers_ns: int) -> str:
    """Say what the first line of a change of two saves without the second."""
    if "Trainer(" not in change or "self.log(" not in change:
        return ""
    alone = _saving(run, _loggers_go_ns(run, change, loggers_ns))
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
            " The mean of a value with on_epoch=True is then over those steps: where it has to be "
            "over all, add detached values up, and log their mean in on_train_epoch_end."
        )
    if not usual:
        return advice
    return (
        "A few values in each step are what every program logs: that shows where steps are short, "
        f"and a larger batch makes fewer of them. {advice}"
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
