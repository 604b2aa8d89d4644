"""Validation takes a noticeable share of the training time.

## What it measures
`validation_ns`: mean time per steady step in validation runs, on the host clock, spread over all
steps; `per_validation_ns`: what one of them takes.

## Why it matters
Training stands still during validation. It is worth its time as far as its result is acted upon.

## What to do
Validate less often (`val_check_interval` within an epoch, `check_val_every_n_epoch` beyond it: the
advice names the setting found), on fewer batches (`limit_val_batches`), or with a larger batch (a
DataLoader's is 1 by default): no gradients are kept, so more samples fit.

## Thresholds
The saving is that of the change proposed: validating a fifth as often, at least, leaves a fifth of
the cost; where that would be less than once in the run, a fifth of the batches (`LEFT_FRAC`) does
the same. What longer and longer validations cost more is `growing-cost`'s, what their workers'
start does `worker-startup`'s. What saves a checkpoint behind each of several validations an epoch
saves as many fewer, and that is part of the most (`FOLLOWED_FRAC` of them, at least, were: the
Trainer skips one where nothing has been trained since); a setting of its own may ask for as many.
`SHORT_NS`: validations once an epoch that take less than a second altogether belong to short
epochs, not to a setting, and are not told. Batches of at most half of training's are (`AT_MOST`),
and come first, for all is validated as before: as large as training's they take what its forward
pass does; at least half of the rest is saved, or, where samples of validation's lines show what it
does beside that, all but as much (`savings/larger_validation.py`). Severity: the common scale
(`findings/grade.py`).
"""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.larger_validation import larger_batches
from lightning_gpuprof.findings.grade import FEWER, grade, seldom
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, When, Where
from lightning_gpuprof.records.phases import FETCHES, Phase
from lightning_gpuprof.units import duration, percent

ID = "frequent-validation"
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "overfitting is noticed later")
LEFT_FRAC = 1 / FEWER
TARGET_FRAC = 0.03
"""The interval proposed keeps validation at about this share of the time."""
SHORT_NS = 1_000_000_000
FOLLOWED_FRAC = 0.9
EXPLAINS = ("slow-logging",)
"""Where it names the call as most of validation."""
BEHIND = "slow-checkpoint"


@dataclass(frozen=True)
class _Cure:
    advice: str
    change: str
    saving: Range
    confidence: float = 0.9
    hook: str | None = None
    explains: tuple[str, ...] = ()


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where validation costs time."""
    mean_ns = None if run.every is None else run.every.mean_ns(Phase.VALIDATION)
    step_ns = run.step_ns
    if mean_ns is None or step_ns is None or run.every is None or run.steps is None:
        return Abstained(ID, "no step's validation was measured")
    runs = run.every.flagged.get("validation", 0)
    steps, epochs = run.every.steps, run.steps.epochs
    if not 0 < mean_ns < step_ns:
        return None
    each_ns = mean_ns * steps // max(1, runs)
    # Once an epoch, as by default, and soon done: nobody chose it.
    by_default = each_ns * runs < SHORT_NS and epochs is not None and runs <= epochs
    cure = _larger(run)
    if cure is None and not by_default:
        cure = _less_often(run, each_ns, runs)
    if cure is None:
        return None
    return Finding(
        id=ID,
        severity=grade(cure.saving, step_ns),
        title=f"Validation takes {duration(mean_ns)} of each step on average "
        f"({percent(mean_ns / step_ns)}), {duration(each_ns)} each time",
        advice=cure.advice,
        evidence={
            "validation_ns": mean_ns,
            "validation_frac": mean_ns / step_ns,
            "per_validation_ns": each_ns,
            "validations_count": runs,
            "step_ns": step_ns,
        },
        saving_ns=cure.saving,
        confidence=cure.confidence,
        where=(
            Where(phase=Phase.VALIDATION.value, name=cure.hook),
            *([Where(phase=Phase.CHECKPOINT.value)] if BEHIND in cure.explains else []),
        ),
        change=cure.change,
        when=When.ALSO_BETWEEN,
        explains=cure.explains,
    )


def _larger(run: RunResults) -> _Cure | None:
    found = larger_batches(run)
    if found is None:
        return None
    return _Cure(
        f"It takes batches of {found.now:,}, where training takes {found.batch_size:,}: no "
        "gradients are kept, so at least as many samples fit. Where they differ in shape, sort "
        "them by it, or pad them. Validating more seldom saves what is left.",
        f"DataLoader(..., batch_size={found.batch_size})  # the validation's",
        Range(low=found.low_ns, high=found.high_ns),
        confidence=0.8,
    )


def _less_often(run: RunResults, each_ns: int, runs: int) -> _Cure:
    assert run.every is not None
    assert run.steps is not None
    assert run.step_ns is not None
    steps, step_ns, mean_ns = run.every.steps, run.step_ns, each_ns * runs // run.every.steps
    every = seldom(steps, runs, each_ns / (TARGET_FRAC * (step_ns - mean_ns)))
    if every > steps and runs >= FEWER and run.status == "finished":
        # In a short run a fifth as often is possible, if not as seldom as TARGET_FRAC asks.
        every = seldom(steps, runs, wanted=0.0)
    advice, change, interval = _change(run, run.steps.ran, every)
    hook = _one_hook(run)
    advice = (f"Most of it is {hook}: make that cheaper first. " if hook else "") + advice
    # Of the change proposed: as many are left as the new interval has.
    left = LEFT_FRAC if interval is None else min(1.0, steps / max(1, runs) / interval)
    gone_ns = max(0, mean_ns - _told_elsewhere(run))
    explains: tuple[str, ...] = EXPLAINS if hook else ()
    saved_ns = _saved_behind(run, runs)
    least = around(round(gone_ns * (1 - left)), step_ns)[0]
    if interval is not None and saved_ns:
        gone_ns += saved_ns
        explains += (BEHIND,)
        advice += (
            f" Each one comes with a checkpoint, {duration(saved_ns)} of each step: these become "
            "as seldom, unless every_n_train_steps asks for them."
        )
    saving = Range(low=least, high=around(round(gone_ns * (1 - left)), step_ns)[1])
    return _Cure(_setting(run, runs) + advice, change, saving, hook=hook, explains=explains)


def _saved_behind(run: RunResults, runs: int) -> int:
    """Return what the checkpoints take of a step that are saved behind each validation."""
    assert run.every is not None
    saves = run.every.flagged.get("checkpoint", 0)
    within = _setting(run, runs)  # once an epoch, both may be the epoch's end's
    if not within or not FOLLOWED_FRAC * runs <= saves <= runs:
        return 0
    return run.every.mean_ns(Phase.CHECKPOINT) or 0


def _told_elsewhere(run: RunResults) -> int:
    """Return what of a step's share goes otherwise: growing-cost's, and worker-startup's."""
    grown_ns = max((one.cost_ns for one in run.rising if one.phase is Phase.VALIDATION), default=0)
    seen = run.validations
    if seen is None or run.every is None or not seen.starts_workers:
        return grown_ns
    return grown_ns + seen.start_again_ns[1] * seen.count // run.every.steps


def _one_hook(run: RunResults) -> str | None:
    """Return the hook of the module, or the callback, that most of validation is."""
    named = (part for part in run.parts_of(Phase.VALIDATION) if part.name not in FETCHES)
    longest = next(named, None)
    if longest is None or 2 * longest.total_ns <= run.phases[Phase.VALIDATION].total_ns:
        return None
    return longest.name


def _change(run: RunResults, steps: int, every: int) -> tuple[str, str, int | None]:
    """Return advice and code for validating every so many steps, as far as the run has them.

    With the new interval in steps, None for as many validations with fewer batches.
    """
    epoch = _epoch_steps(run)
    if every > steps and run.status == "finished":
        return (
            f"The run is too short to validate more seldom ({steps:,} steps): validate on fewer "
            "batches, or less often in a longer run.",
            f"Trainer(..., limit_val_batches={LEFT_FRAC:.1f})",
            None,
        )
    if epoch is None or every <= epoch:
        return (
            f"Validate every {every:,} steps or on fewer batches (limit_val_batches).",
            f"Trainer(..., val_check_interval={every})",
            every,
        )
    # An interval longer than the epoch is refused by the Trainer.
    epochs = -(-every // epoch)
    whole = (
        ""
        if run.start.trainer.get("val_check_interval", 1.0) == 1.0
        else ", val_check_interval=1.0"
    )
    return (
        f"Validate every {epochs:,} epochs of {epoch:,} steps or on fewer batches "
        "(limit_val_batches).",
        f"Trainer(..., check_val_every_n_epoch={epochs}{whole})",
        epochs * epoch,
    )


def _setting(run: RunResults, runs: int) -> str:
    """Name the setting that asks for validation more than once an epoch, where there is one."""
    interval = run.start.trainer.get("val_check_interval", 1.0)
    if isinstance(interval, float) and interval >= 1.0:
        return ""
    return f"val_check_interval={interval} asked for {runs} of them here. "


def _epoch_steps(run: RunResults) -> int | None:
    """Return the batches of a training epoch, None where its length is not known."""
    length = run.start.loader.length if run.start.loader else None
    limit = run.start.trainer.get("limit_train_batches")
    if isinstance(limit, float):
        return None if length is None else max(1, int(length * limit))
    if isinstance(limit, int) and limit > 0:
        return limit if length is None else min(length, limit)
    return length
