"""Validation takes a noticeable share of the training time.

## Symptom
Validation, spread over all steps, takes a noticeable part of the step.

## Why
Training stands still during validation. It is worth that time only if you act on its result.

## Fix
```python
Trainer(val_check_interval=10)  # before
Trainer(val_check_interval=500)  # after; or limit_val_batches, or larger batches
```

## How it is measured
`validation_ns` is the time per step and `per_validation_ns` the time per validation. The saving is
that of the proposed change: a fifth as often or less, and about 3% of the time.

## Limits
Validation once per epoch that takes less than a second in total is not reported. Starting the
workers of its loader is reported by `worker-startup`.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.cheaper_batches import validation_ns
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.analysis.savings.loader_plan import LoaderChange, loader_plan
from lightning_gpuprof.findings.grade import FEWER, WARNING_FRAC, seldom
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import FETCHES, LOADER_HOOKS, Phase
from lightning_gpuprof.units import duration, percent

LEFT_FRAC = 1 / FEWER
TARGET_FRAC = 0.03
"""With the proposed interval, validation takes about this share of the time."""
SHORT_NS = 1_000_000_000
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "overfitting is noticed later")


@rule(id="frequent-validation", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the time of validation."""
    mean_ns = None if run.every is None else run.every.mean_ns(Phase.VALIDATION)
    step_ns = measured(run.step_ns)
    if mean_ns is None or run.every is None or run.steps is None:
        return None
    mean_ns -= _loader_hook_ns(run)
    if not 0 < mean_ns < step_ns:
        return None
    runs = run.every.flagged.get("validation", 0)
    each_ns = mean_ns * run.every.steps // max(1, runs)
    epochs = run.steps.epochs
    if each_ns * runs < SHORT_NS and epochs is not None and runs <= epochs:
        return None  # once per epoch, as by default, and short: nobody chose the interval
    advice, change, saving = _less_often(run, mean_ns, runs)
    hook = _one_hook(run)
    return Finding(
        title=f"Validation takes {duration(mean_ns)} of each step "
        f"({percent(mean_ns / step_ns)}), {duration(each_ns)} each time",
        advice=advice,
        evidence={
            "validation_ns": mean_ns,
            "per_validation_ns": each_ns,
            "validations_count": runs,
        },
        saving_ns=saving,
        cause_ns=Range(mean_ns, mean_ns),
        confidence=0.9,
        places=(Place(phase=Phase.VALIDATION.value, name=hook),),
        change=change,
        when=When.ALSO_BETWEEN,
        explains=("slow-logging",) if hook else (),
    )


def _less_often(run: RunResults, mean_ns: int, runs: int) -> tuple[str, str, Range]:
    """Return the advice, the change and the saving of validating less often."""
    steps, ran, step_ns = measured(run.every).steps, measured(run.steps).ran, measured(run.step_ns)
    apart, finished = steps / max(1, runs), run.status == "finished"
    every = seldom(steps, runs, mean_ns * apart / (TARGET_FRAC * (step_ns - mean_ns)))
    if every > steps and runs >= FEWER and finished:
        # In a short run, validation can be a fifth as often, but not as rare as TARGET_FRAC asks.
        every = seldom(steps, runs, wanted=0.0)
    epoch, left = _epoch_steps(run), min(1.0, apart / every)
    often, change = f"every {every:,} steps", f"Trainer(..., val_check_interval={every})"
    if every > ran and finished:
        often, left = "less often in a longer run", LEFT_FRAC
        change = f"Trainer(..., limit_val_batches={LEFT_FRAC:.1f})"
    elif epoch is not None and every > epoch:  # the Trainer refuses a longer interval
        epochs = -(-every // epoch)
        often, left = f"every {epochs:,} epochs of {epoch:,} steps", apart / (epochs * epoch)
        change = f"Trainer(..., check_val_every_n_epoch={epochs}, val_check_interval=1.0)"
    advice = f"Validate {often} or on fewer batches (limit_val_batches)."
    if hook := _one_hook(run):
        advice = f"Most of it is {hook}: make that cheaper first. {advice}"
    gone_ns = round(max(0, mean_ns - _in_other_findings(run)) * (1 - left))
    return advice, change, Range(*around(gone_ns, step_ns))


def _in_other_findings(run: RunResults) -> int:
    """Return the time of validation that worker-startup and data-wait report, per step."""
    validations, wait_ns, step_ns = run.epochs.validations, run.wait_ns or 0, measured(run.step_ns)
    if validations is None or run.every is None:
        return 0
    if validations.starts_workers:
        return validations.start_again_ns[1] * validations.count // run.every.steps
    plan = loader_plan(run, step_ns, wait_ns, exposed(run, Phase.DATA_WAIT, wait_ns))
    reported = wait_ns >= WARNING_FRAC * step_ns and plan.change is LoaderChange.CHEAPER
    return validation_ns(run) if reported else 0


def _loader_hook_ns(run: RunResults) -> int:
    """Return the time of the hook that makes the loaders, which `unexplained-share` reports."""
    hooks = (part for part in run.parts_of(Phase.VALIDATION) if part.name in LOADER_HOOKS)
    return sum(part.per_step.mean_ns for part in hooks if part.per_step is not None)


def _one_hook(run: RunResults) -> str | None:
    """Return the hook of the module, or the callback, that takes most of validation."""
    others = (*FETCHES, *LOADER_HOOKS)
    named = (part for part in run.parts_of(Phase.VALIDATION) if part.name not in others)
    longest = next(named, None)
    if longest is None or 2 * longest.total_ns <= run.phases[Phase.VALIDATION].total_ns:
        return None
    return longest.name


def _epoch_steps(run: RunResults) -> int | None:
    """Return the number of batches in a training epoch, None if it is not known."""
    length = run.start.loader.length if run.start.loader else None
    limit = settings_of(run.start).limit_train_batches
    if isinstance(limit, float):
        return None if length is None else max(1, int(length * limit))
    if isinstance(limit, int) and limit > 0:
        return limit if length is None else min(length, limit)
    return length
