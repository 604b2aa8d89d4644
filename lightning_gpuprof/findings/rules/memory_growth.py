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

Clear lists at the end of an epoch, and bound the size of caches.

## How it is measured
`growth_per_step_bytes` is the slope of memory over recorded windows. It counts if chance gives such
a slope in at most one of a thousand runs. The saving lies between what the growth has cost per step
on average and what it costs by now.

## Limits
The rule is silent below a kilobyte per step. If memory was not measured for long enough, a phase
that gets slower is `info`, unless a line in it is known that appends to a collection.
"""

import re

from lightning_gpuprof.analysis.memory.memory_use import MemoryGrowth
from lightning_gpuprof.analysis.run.growth import Growth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.places import appending_line
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, size

MIN_BYTES_PER_STEP = 1024
"""Logging and progress bars keep about a kilobyte per step."""
WARN_BYTES_PER_STEP = 100_000
"""This is a gigabyte in 10,000 steps."""
GROWING = (Phase.FORWARD, Phase.CALLBACKS, Phase.OTHER)
"""A backward pass that grows is reported by `retained-graph`."""
MIN_RISE = 0.1
MIN_FRAC = 0.01
"""Of a step. Dispatch and measuring change by less."""
LIKE_OTHERS = 0.5
"""If backward or the optimizer rise by this share of a phase's rise, the whole machine gets
slower."""
OTHERS = (Phase.BACKWARD, Phase.OPTIMIZER_STEP)
ADVICE = (
    "Find what accumulates from step to step, such as a list of losses or outputs. Keep a running "
    "sum of detached values instead, and clear lists at the epoch's end."
)
COPIED = (
    "To append to what it has, each step copies all of it. Allocate one tensor of the final "
    "size and write new rows into it."
)
ROWS = "self.memory[at : at + len(new)] = new  # one tensor allocated once, instead of torch.cat"
SUM = "self.total += loss.detach()  # instead of self.losses.append(loss)"
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


@rule(id="memory-growth", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about memory or phases that grow."""
    step_ns, memory = measured(run.step_ns), run.memory.growth
    if memory is not None and memory.bytes_per_step < MIN_BYTES_PER_STEP:
        memory = None
    slower = {p: g for p, g in run.variation.growing.items() if p in GROWING and _rises(g, step_ns)}
    if memory is None:
        if run.memory.watched:
            return None
        slower = {p: g for p, g in slower.items() if _by_itself(run, g)}
    if memory is None and not slower:
        return None
    return _finding(step_ns, memory, slower, appending_line(run, slower))


def _by_itself(run: RunResults, growth: Growth) -> bool:
    """Return whether a phase gets slower while the machine does not."""
    common = max(
        (_rise_frac(run.variation.growing[p]) for p in OTHERS if p in run.variation.growing),
        default=0.0,
    )
    return common < LIKE_OTHERS * _rise_frac(growth)


def _rise_frac(growth: Growth) -> float:
    return (growth.last - growth.first) / max(1, growth.first)


def _rises(growth: Growth, step_ns: int) -> bool:
    more_ns = growth.last - growth.first
    return _rise_frac(growth) >= MIN_RISE and more_ns >= MIN_FRAC * step_ns


def _finding(
    step_ns: int, memory: MemoryGrowth | None, slower: dict[Phase, Growth], line: LineCount | None
) -> Finding:
    # Growth began with the first step of the session, before any step was steady.
    before_ns = sum(growth.before_first for growth in slower.values())
    cost_ns = before_ns + sum(growth.mean_above_first for growth in slower.values())
    now_ns = before_ns + sum(growth.last - growth.first for growth in slower.values())
    saving = Range(low=min(cost_ns, now_ns), high=now_ns)
    is_known = memory is not None or line is not None
    severity = grade(saving, step_ns) if is_known else Severity.INFO
    if memory and memory.bytes_per_step >= WARN_BYTES_PER_STEP and severity is Severity.INFO:
        severity = Severity.WARNING
    copies = line is not None and _COPIES.search(line.source) is not None
    evidence: dict[str, int | float] = {"grown_per_step_ns": cost_ns}
    if memory is not None:
        evidence["growth_per_step_bytes"] = round(memory.bytes_per_step)
        evidence["last_bytes"] = memory.last_bytes
        if memory.steps_left is not None:
            evidence["steps_left_count"] = memory.steps_left
    for phase, growth in slower.items():
        evidence[f"{phase.value}_first_ns"] = growth.first
        evidence[f"{phase.value}_last_ns"] = growth.last
    return Finding(
        severity=severity,
        title=_title(memory, slower),
        advice=("" if memory else UNSURE) + (COPIED if copies else ADVICE),
        evidence=evidence,
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.8 if memory else 0.7 if line else 0.3,
        places=(
            *([Place.at(line, phase=line.phase)] if line else []),
            *(Place(phase=phase.value) for phase in slower),
        ),
        change=ROWS if copies else SUM,
        explains=SLOWER,
    )


def _title(memory: MemoryGrowth | None, slower: dict[Phase, Growth]) -> str:
    if memory is None:
        phase, growth = max(slower.items(), key=lambda item: item[1].last - item[1].first)
        return f"{phase.value} went from {duration(growth.first)} to {duration(growth.last)}"
    whose = "Device memory" if memory.of_device else "The process's memory"
    title = f"{whose} grows by {size(memory.bytes_per_step)} per step"
    if memory.steps_left is not None:
        title += f", full in {memory.steps_left:,} steps"
    return title
