"""Something accumulates: memory grows from step to step, and phases may grow with it.

## Symptom
The memory of the device or of the process rises through the whole run, or a phase gets slower with
every step.

## Why
A list of outputs with their graphs keeps the activations of every step. If each step works on the
whole list, steps get slower as well.

## Fix
```python
self.losses.append(loss)  # before
self.total += loss.detach()  # after
```

Clear lists at the end of an epoch, and bound the size of caches. In `test`, `validate` and
`predict`, which keep no graphs, update a metric with each batch's outputs, or write them to disk.

## How it is measured
`growth_per_step_bytes` is the slope of memory over recorded windows. It counts if chance gives such
a slope in at most one of a thousand runs. The saving lies between what the growth has cost per step
on average and what it costs by now. `steps_left_count` says when the device or, without a GPU, the
machine's or container's memory is full at this pace. If that ends the run, or another of twice its
length, the finding is critical and precedes savings of less than a fifth of a step.

## Limits
The rule is silent below a kilobyte per step. If memory was not measured for long enough, a phase
that gets slower is `info`, unless a line in it is known that appends to a collection. What the
Trainer keeps in `predict` is reported by `kept-predictions`, what a metric keeps by
`growing-metric`, and the memory of the loader's workers by `worker-memory`.
"""

import re

from lightning_gpuprof.analysis.memory.memory_use import MemoryGrowth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.growing import GrowthCost, ends_run, growth_cost
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Severity
from lightning_gpuprof.findings.places import appending_line
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.units import duration, size

MIN_BYTES_PER_STEP = 1024
"""Logging and progress bars keep about a kilobyte per step."""
WARN_BYTES_PER_STEP = 100_000
"""This is a gigabyte in 10,000 steps."""
ADVICE = (
    "Find what accumulates from step to step, such as a list of losses or outputs. Keep a running "
    "sum of detached values instead, and clear lists at the epoch's end."
)
OF_EVALUATION = (
    "Find what accumulates from batch to batch, such as a list of outputs for the epoch's end. "
    "Update a metric with each batch's outputs instead, or write them to disk."
)
COPIED = (
    "To append to what it has, each step copies all of it. Allocate one tensor of the final "
    "size and write new rows into it."
)
ROWS = "self.memory[at : at + len(new)] = new  # one tensor allocated once, instead of torch.cat"
SUM = "self.total += loss.detach()  # instead of self.losses.append(loss)"
METRIC = "self.metric.update(outputs, targets)  # instead of self.outputs.append(outputs)"
UNSURE = "Memory was not measured for long enough to say whether it grows: train for longer. "
_COPIES = re.compile(r"\b(cat|concat|concatenate|vstack|hstack)\(|np\.append\(")
SLOWER = (
    "slow-callback",
    "slow-epoch-end",
    "slow-logging",
    "slow-checkpoint",
    "data-wait",
    "growing-step",
)
EFFORT = Effort(Horizon.QUICK, "a detach or a running sum", "none")
ROWS_EFFORT = Effort(Horizon.QUICK, "one array instead of a growing one", "none")


@rule(id="memory-growth", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about memory or phases that grow."""
    memory = run.memory.growth
    if memory is not None and memory.bytes_per_step < MIN_BYTES_PER_STEP:
        memory = None
    if memory is None and run.memory.watched:
        return None
    cost = growth_cost(run, alone=memory is None)
    if memory is None and not cost.phases:
        return None
    return _finding(run, memory, cost, appending_line(run, cost.phases))


def _finding(
    run: RunResults, memory: MemoryGrowth | None, cost: GrowthCost, line: LineCount | None
) -> Finding:
    is_known = memory is not None or line is not None
    severity = grade(cost.saving, measured(run.step_ns)) if is_known else Severity.INFO
    evidence = cost.evidence
    fast = memory is not None and memory.bytes_per_step >= WARN_BYTES_PER_STEP
    if memory is not None:
        if fast and severity is Severity.INFO:
            severity = Severity.WARNING
        evidence["growth_per_step_bytes"] = round(memory.bytes_per_step)
        evidence["last_bytes"] = memory.last_bytes
        if memory.steps_left is not None:
            evidence["steps_left_count"] = memory.steps_left
        if ends_run(run, memory.steps_left):
            fast, severity = True, Severity.CRITICAL
    copies = line is not None and _COPIES.search(line.source) is not None
    advice, change = (ADVICE, SUM) if run.trains else (OF_EVALUATION, METRIC)
    effort = EFFORT
    if copies:
        advice, change, effort = COPIED, ROWS, ROWS_EFFORT
    return Finding(
        severity=severity,
        title=_title(memory, cost),
        advice=advice if memory else UNSURE + advice,
        evidence=evidence,
        saving_ns=cost.saving,
        cause_ns=cost.saving,
        confidence=0.8 if memory else 0.7 if line else 0.3,
        places=(
            *([Place.at(line, phase=line.phase)] if line else []),
            *(Place(phase=phase.value) for phase in cost.phases),
        ),
        change=change,
        matters=fast,
        explains=SLOWER,
        effort=effort,
    )


def _title(memory: MemoryGrowth | None, cost: GrowthCost) -> str:
    if memory is None:
        phase, growth = max(cost.phases.items(), key=lambda item: item[1].last - item[1].first)
        return f"{phase.value} went from {duration(growth.first)} to {duration(growth.last)}"
    whose = "Device memory" if memory.of_device else "The process's memory"
    title = f"{whose} grows by {size(memory.bytes_per_step)} per step"
    if memory.steps_left is not None:
        title += f", full in {memory.steps_left:,} steps"
    return title
