"""An argument of the Trainer, its strategy or the DataLoader asks for costly work in each step.

## Symptom
Samples of the training thread, or a phase, show time in code of Lightning or torch that runs only
because an argument asks for it.

## Why
Such work is easily forgotten: it is in no line of the program, and many arguments are copied from
one project to the next.

## Fix
Leave the argument out if nothing depends on it.

```python
DDPStrategy(find_unused_parameters=True)  # before: walks through the graph in every step
DDPStrategy()  # after, if every parameter gets a gradient
```

## How it is measured
`argument_ns` is the share of a phase's stack samples in functions that work for the argument, times
the duration of the phase; for gradient clipping, it is the duration of its phase.

## Limits
The rule is silent below 5% of the step. Whether training needs the argument, it cannot know, and
says so; anomaly detection, validation, logging and checkpoints have findings of their own.
"""

from dataclasses import dataclass, replace

from lightning_gpuprof.analysis.run.line_samples import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

MIN_FRAC = 0.05
CLIP = "gradient_clip_val"
EFFORT = Effort(Horizon.QUICK, "one argument", "what the argument is there for")


@dataclass(frozen=True)
class Argument:
    """An argument and what to do about it.

    Args:
        name: Its name.
        written: The argument as it is passed.
        advice: What to do.
        change: The change as code.
        risk: What may get worse with it.
        least_frac: The least share of its time that the change saves.
        setting: The change as `Finding.setting`.
    """

    name: str
    written: str
    advice: str
    change: str
    risk: str
    least_frac: float = 0.0
    setting: str | None = None


ARGUMENTS = (
    Argument(
        CLIP,
        "Trainer(gradient_clip_val={value})",
        "It computes the norm of all gradients in each step, with an operator or more for each "
        "tensor. Leave it out if losses do not jump without it, or clip by value "
        '(gradient_clip_algorithm="value").',
        "Trainer(...)  # without gradient_clip_val, if training is stable without it",
        risk="losses may jump",
    ),
    Argument(
        "find_unused_parameters",
        "find_unused_parameters=True",
        "It walks through the graph of each forward pass for parameters without a gradient. Leave "
        "it out if every parameter gets one; static_graph=True walks once if they never change.",
        'Trainer(strategy="ddp")  # without find_unused_parameters',
        least_frac=0.5,
        risk="it fails if a parameter gets no gradient",
    ),
    Argument(
        "broadcast_buffers",
        "broadcast_buffers=True",
        "DDP sends the buffers of rank 0, such as the means of BatchNorm, to all ranks before "
        "each forward pass. Without it each rank keeps its own; validation then uses rank 0's.",
        "Trainer(strategy=DDPStrategy(broadcast_buffers=False))",
        risk="ranks keep buffers of their own",
    ),
    Argument(
        "sync_batchnorm",
        "Trainer(sync_batchnorm=True)",
        "Each BatchNorm exchanges its sums between ranks, twice in each step. With 16 samples or "
        "more on each rank, leave it out.",
        "Trainer(...)  # without sync_batchnorm",
        risk="statistics are those of one rank",
    ),
    Argument(
        "pin_memory",
        "DataLoader(pin_memory=True)",
        "Without workers the training process pins each batch itself. Use workers, whose batches "
        "are pinned by a thread, or leave it out on a CPU and for small batches.",
        "DataLoader(..., pin_memory=False)",
        risk="none",
    ),
    Argument(
        "precision",
        'Trainer(precision="16-mixed")',
        "Its scaler looks through all gradients for infinite values and reads the result, which "
        "waits for the device. bfloat16 needs no scaler.",
        'Trainer(precision="bf16-mixed")',
        risk="fewer digits than in float16",
        setting="precision=bf16-mixed",
    ),
)
"""Which functions work for an argument is in `adapters/arguments.py`."""
BY_NAME = {argument.name: argument for argument in ARGUMENTS}


@rule(id="costly-argument", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each argument that asks for costly work."""
    costs = _costs(run)
    return tuple(
        _finding(run, name, phase, cost_ns)
        for (name, phase), cost_ns in sorted(costs.items(), key=lambda item: -item[1])
        if cost_ns >= MIN_FRAC * measured(run.step_ns)
    )


def _costs(run: RunResults) -> dict[tuple[str, Phase], int]:
    """Return the time per step of each argument, with the phase that it is spent in."""
    costs = {}
    settings, clip = settings_of(run.start), run.per_step(Phase.CLIP_GRADIENTS)
    lines = run.lines
    for sampled in lines.arguments if lines else ():
        phase = Phase(sampled.phase)
        per_step, whole = run.per_step(phase), lines.by_phase.get(sampled.phase, 0) if lines else 0
        if sampled.argument not in BY_NAME or sampled.argument == CLIP or per_step is None:
            continue
        if sampled.argument == "find_unused_parameters" and not settings.finds_unused:
            continue
        if whole and sampled.count >= LEAST_COUNT:
            costs[sampled.argument, phase] = round(per_step.mean_ns * sampled.count / whole)
    own = run.lines.of(Phase.CLIP_GRADIENTS) if run.lines else ()
    if settings.gradient_clip_val and clip is not None and not own:
        costs[CLIP, Phase.CLIP_GRADIENTS] = clip.mean_ns
    return costs


def _finding(run: RunResults, name: str, phase: Phase, cost_ns: int) -> Finding:
    argument = BY_NAME[name]
    written = argument.written.format(value=settings_of(run.start).gradient_clip_val)
    lost = exposed(run, phase, cost_ns)
    return Finding(
        title=f"{written} takes {duration(cost_ns)} of each step "
        f"({percent(cost_ns / measured(run.step_ns))})",
        advice=argument.advice,
        evidence={"argument_ns": cost_ns},
        saving_ns=Range(round(argument.least_frac * lost.low_ns), min(cost_ns, lost.high_ns)),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=0.7,
        places=(Place(phase=phase.value, name=name),),
        change=argument.change,
        setting=argument.setting,
        effort=replace(EFFORT, risk=argument.risk),
    )
