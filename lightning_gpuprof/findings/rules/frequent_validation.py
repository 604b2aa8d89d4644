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

If a line of your own takes most of it, make that cheaper first. If validations take longer and
longer, clear what they keep:

```python
def on_validation_epoch_end(self):
    self.log("score", score(self.outputs))
    self.outputs.clear()  # or it grows with every validation
```

## How it is measured
`validation_ns` is the time per step and `per_validation_ns` the time per validation. The saving is
that of the proposed change. Validating less often is a fifth as often or less, and about 3% of the
time. A line of your own takes the share of the samples of the stack during validation; from half of
that to all of it is saved. Validations grow if chance gives such a rise in at most one of a
thousand runs; what exceeds the first ones is saved.

## Limits
Validation once per epoch that takes less than a second in total is not reported. Starting the
workers of its loader is reported by `worker-startup`.
"""

from itertools import takewhile
from typing import NamedTuple

from lightning_gpuprof.analysis.run.epochs import ValidationGrowth
from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.cheaper_batches import validation_ns
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.analysis.savings.loader_plan import LoaderChange, loader_plan
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.findings.grade import FEW_SAMPLES, FEWER, WARNING_FRAC, seldom
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.operators import operators
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import FETCHES, LOADER_HOOKS, Phase
from lightning_gpuprof.units import duration, percent

OWN_KINDS = (None, "python", "torch", "metric")
"""Kinds of sampled lines that are not calls of the model, of Lightning or of a logger."""
MODEL = "forward"
"""The function in which lines compute the model, which validation is for."""
HALF = 0.5
LARGER = 32
LEFT_FRAC = 1 / FEWER
TARGET_FRAC = 0.03
"""With the proposed interval, validation takes about this share of the time."""
SHORT_NS = 1_000_000_000
KEPT = (
    "It keeps growing: something stays from one validation to the next, such as a list of outputs "
    "that is never cleared. Clear it as each validation ends, or keep sums or a metric instead of "
    "outputs."
)
CLEARED = "self.outputs.clear()  # at the end of on_validation_epoch_end"
LINE = "{advice} Most of it is {function}, {file}:{line}, `{source}`."
CHEAPER = (
    "Make {function} cheaper first: on fewer values, on whole tensors, or once for all batches."
)
SMALL = (
    "Validation's batches hold {samples}: larger ones do the work of a batch less often "
    "(batch_size={larger})."
)
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "overfitting is noticed later")
KEPT_EFFORT = Effort(Horizon.QUICK, "a line as validation ends", "none")
LINE_EFFORT = Effort(Horizon.MEDIUM, "the place that is named", "none")
BATCH_EFFORT = Effort(Horizon.QUICK, "one argument of the DataLoader", "it takes more memory")


class Remedy(NamedTuple):
    """What can be done and takes, and what it saves per step if that is known."""

    advice: str
    change: str | None = None
    saving: Range | None = None
    effort: Effort = EFFORT


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
    validations = run.epochs.validations
    growth = validations.growth if validations is not None else None
    title = (
        f"Validation takes {duration(mean_ns)} of each step "
        f"({percent(mean_ns / step_ns)}), {duration(each_ns)} each time"
    )
    if growth is not None:
        first, last = duration(growth.first_ns), duration(growth.last_ns)
        title = f"Validation takes longer each time: {first} at first, {last} by now"
    remedies = _remedies(run, mean_ns, runs, growth)
    # The first remedy with a saving is the one to make. The code of one before it comes first.
    before = list(takewhile(lambda remedy: remedy.saving is None, remedies))
    made = remedies[len(before)]
    shown = next((remedy for remedy in (*before, made) if remedy.change is not None), made)
    hook = _one_hook(run)
    return Finding(
        title=title,
        advice=" ".join(remedy.advice for remedy in remedies),
        evidence=evidence_of(
            validation_ns=mean_ns,
            per_validation_ns=each_ns,
            validations_count=runs,
            first_validations_ns=growth.first_ns if growth is not None else None,
            last_validations_ns=growth.last_ns if growth is not None else None,
        ),
        saving_ns=measured(made.saving),
        cause_ns=Range(mean_ns, mean_ns),
        confidence=0.9,
        places=(Place(phase=Phase.VALIDATION.value, name=hook),),
        change=shown.change,
        effort=shown.effort,
        when=When.ALSO_BETWEEN,
        explains=("slow-logging",) if hook else (),
    )


def _remedies(
    run: RunResults, mean_ns: int, runs: int, growth: ValidationGrowth | None
) -> list[Remedy]:
    """Return what can be done, what is nearest to the cause first."""
    remedies = []
    if growth is not None:
        steps = measured(run.every).steps
        more_ns = growth.mean_above_first_ns * runs // steps, growth.last_ns * runs // steps
        saving = Range(around(more_ns[0])[0], min(mean_ns, max(more_ns)))
        remedies.append(Remedy(KEPT, CLEARED, saving, KEPT_EFFORT))
    samples = _samples(run)
    own = _own_line(samples)
    hook = _one_hook(run)
    if own is not None:
        remedies.append(_cheaper_line(samples, own, mean_ns))
    elif hook is not None:
        remedies.append(Remedy(f"Make {hook} cheaper first: it is most of it."))
    loader = run.start.validation_loader
    if loader is not None and loader.batch_size is not None and loader.batch_size <= FEW_SAMPLES:
        held = f"{loader.batch_size} {'sample' if loader.batch_size == 1 else 'samples'}"
        change = f"DataLoader(..., batch_size={LARGER})  # validation's"
        advice = SMALL.format(samples=held, larger=LARGER)
        remedies.append(Remedy(advice, change, effort=BATCH_EFFORT))
    return [*remedies, _less_often(run, mean_ns, runs)]


def _samples(run: RunResults) -> HostLines:
    """Return the samples of the stack during validation, in steps and between epochs."""
    outside = run.facts.outside_lines
    sampled = [run.lines] if run.lines is not None else []
    if outside is not None:
        sampled.append(outside.as_lines)
    whole = sum(lines.by_phase.get(Phase.VALIDATION.value, 0) for lines in sampled)
    lines = tuple(line for lines in sampled for line in lines.of(Phase.VALIDATION))
    return HostLines(whole, lines, {Phase.VALIDATION.value: whole})


def _own_line(samples: HostLines) -> LineCount | None:
    """Return the longest line of the function that takes most of validation, if it is no model."""
    functions: dict[tuple[str, str], list[LineCount]] = {}
    for line in samples.of(Phase.VALIDATION, OWN_KINDS):
        if line.function != MODEL:
            functions.setdefault((line.file, line.function), []).append(line)
    for lines in functions.values():
        count = sum(line.count for line in lines)
        if count >= max(LEAST_COUNT, HALF * samples.whole):
            return max(lines, key=lambda line: line.count)
    return None


def _cheaper_line(samples: HostLines, own: LineCount, mean_ns: int) -> Remedy:
    """Return the remedy of a cheaper line."""
    tables = operators()
    row = next((row for row in (*tables.computing, *tables.loading) if row.fits(own)), None)
    advice = LINE.format(
        function=own.named,
        file=short_path(own.file),
        line=own.line,
        source=own.source,
        advice=CHEAPER.format(function=own.named) if row is None else row.whole_advice,
    )
    lines = [
        line
        for line in samples.of(Phase.VALIDATION, OWN_KINDS)
        if (line.file, line.function) == (own.file, own.function)
    ]
    low_frac, high_frac = samples.interval(lines, Phase.VALIDATION)
    saving = Range(round(HALF * low_frac * mean_ns), round(high_frac * mean_ns))
    return Remedy(advice, row.change if row is not None else None, saving, LINE_EFFORT)


def _less_often(run: RunResults, mean_ns: int, runs: int) -> Remedy:
    """Return the remedy of validating less often."""
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
    ran_epochs = measured(run.steps).epochs
    lost = without_serial_work(
        run,
        Phase.VALIDATION,
        apart * max(0, mean_ns - _in_other_findings(run)),
        apart,
        gone_frac=(1 - left, 1 - left),
        on_device=True,
        amid_epochs=ran_epochs is None or runs > ran_epochs,
    )
    return Remedy(advice, change, Range(lost.low_ns, lost.high_ns))


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
