"""Something accumulates: memory grows from step to step, and phases with it.

## What it measures
`growth_per_step_bytes`: the device's allocated memory, or the training process's resident memory,
per step, where it rises from window to window all along; phases whose time rises all along with it;
and whether the autograd graph of a step is still there steps later.

## Why it matters
Memory that grows ends the run sooner or later. The usual cause, a list of outputs with their
graphs, keeps every step's activations. Where the list is worked on each step, steps get slower too.

## What to do
Keep numbers instead of tensors, or running sums (`loss.detach()`); empty lists at the epoch's end;
give caches a bound. What is kept in one tensor has its rows written (`memory[rows] = new`):
`torch.cat` copies all of it each time.

## Thresholds
`MIN_BYTES_PER_STEP`: a kilobyte is what logging and progress bars keep. The rise must be one that a
flat run shows in one case of a thousand, and go on in the run's second half
(`memory/memory_growth.py`): a cache that fills, or an allocator that settles, stops. The saving is
from what growing has cost a step so far, on average, to what it costs one by now, both against the
run's first step, to which the pace leads back; severity is at least a warning where memory grows by
`WARN_BYTES_PER_STEP`, a gigabyte in 10,000 steps, or where graphs are kept, which has no end. A
phase that gets slower while memory does not grow is no finding here (`growing-cost`). Where memory
was not measured for long enough, it is told as `info` if the other phases kept their pace
(`LIKE_OTHERS`). A line is named where
samples saw the program, in a phase that gets slower, at one that adds to what an attribute or
container holds (`_KEEPS`).
"""

import re
from collections.abc import Iterable

from lightning_gpuprof.analysis.memory.memory_growth import MemoryGrowth
from lightning_gpuprof.analysis.run.growth import Growth
from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.graph_nodes import graphs_are_kept
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, size

ID = "memory-growth"
EFFORT = Effort(Horizon.QUICK, "a detach or a running sum", "none")
MIN_BYTES_PER_STEP = 1024
WARN_BYTES_PER_STEP = 100_000
GROWING = (Phase.FORWARD, Phase.CALLBACKS, Phase.OTHER)
"""A growing backward is a graph that grows: `retained-graph` says so. Where no graph outlives its
step, it is what is worked on that grows."""
MIN_RISE = 0.1
"""A phase that rises by less may follow the data or the clock's frequency. In quiet runs of 240
steps the medians of eighths of a steady phase scattered by 2 %."""
MIN_FRAC = 0.01
"""Of a step: dispatch and measuring change by less."""
LIKE_OTHERS = 0.5
"""Backward or optimizer rise by this share of it: then the whole machine gets slower."""
OTHERS = (Phase.BACKWARD, Phase.OPTIMIZER_STEP)
EXPLAINS = ("slow-callback", "slow-epoch-end", "slow-logging", "slow-checkpoint", "data-wait")
"""What takes longer each time is to be kept from growing, however often it comes."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where memory or time grows."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    kept = graphs_are_kept(run.notes)
    phases = GROWING if kept is not False else (*GROWING, Phase.BACKWARD)
    slower = {p: g for p, g in run.growing.items() if p in phases and _rises(g, run.step_ns)}
    memory = run.memory_growth
    if memory is not None and memory.bytes_per_step < MIN_BYTES_PER_STEP:
        memory = None
    if memory is None and run.memory_watched and not kept:
        return None
    if memory is None:
        told = {one.phase for one in run.rising}
        slower = {p: g for p, g in _by_themselves(slower, run.growing).items() if p not in told}
    if memory is None and not slower and not kept:
        return Abstained(
            ID, "memory was recorded in too few windows, and no phase gets slower by itself"
        )
    return _finding(run.step_ns, memory, slower, keeping(run, slower), kept=kept)


_KEEPS = re.compile(
    r"[\w.]+(\.\w+|\[.+\])\s*=.*\b(cat|concat|concatenate|stack|vstack|hstack|append)\("
    r"|.*\w\.(append|extend|appendleft)\("
)
_COPIES = re.compile(r"\b(cat|concat|concatenate|vstack|hstack)\(|np\.append\(")


def keeping(run: RunResults, slower: Iterable[Phase]) -> LineCount | None:
    """Return the line seen most often, in phases that get slower, that adds to what is kept."""
    lines = host_lines(run.notes)
    if lines is None:
        return None
    seen = [one for phase in slower for one in lines.of(phase, (None, "python", "torch"))]
    return next((one for one in seen if _KEEPS.match(one.source)), None)


def _by_themselves(
    slower: dict[Phase, Growth], growing: dict[Phase, Growth]
) -> dict[Phase, Growth]:
    others = (p for p in OTHERS if p in growing and p not in slower)
    common = max((_rise_frac(growing[p]) for p in others), default=0.0)
    return {p: g for p, g in slower.items() if common < LIKE_OTHERS * _rise_frac(g)}


def _rise_frac(growth: Growth) -> float:
    return (growth.last - growth.first) / max(1, growth.first)


def _rises(growth: Growth, step_ns: int) -> bool:
    more_ns = growth.last - growth.first
    return _rise_frac(growth) >= MIN_RISE and more_ns >= MIN_FRAC * step_ns


ADVICE = (
    "Look for what is kept from step to step (a list of losses or outputs): keep a running sum of "
    "detached values instead, and empty lists at the epoch's end."
)
COPIED = (
    "Joining what is kept with what is new copies all of it in each step, the longer the run the "
    "more: make it once as large as it may get, and write the new rows into it in turn."
)
ROWS = "self.memory[at : at + len(new)] = new  # of one tensor made once, instead of torch.cat"

UNSURE = "Memory was not measured for long enough to say whether it grows: train for longer. "


def _finding(
    step_ns: int,
    memory: MemoryGrowth | None,
    slower: dict[Phase, Growth],
    line: LineCount | None,
    *,
    kept: bool | None,
) -> Finding:
    # What is kept began with the session's first step, before any that was steady.
    before_ns = sum(growth.before_first for growth in slower.values())
    cost_ns = before_ns + sum(growth.mean_above_first for growth in slower.values())
    # From what growing has cost on average so far to what it costs a step by now.
    now_ns = before_ns + sum(growth.last - growth.first for growth in slower.values())
    saving = Range(low=min(cost_ns, now_ns), high=now_ns)
    evidence: dict[str, int | float] = {"step_ns": step_ns, "grown_per_step_ns": cost_ns}
    said = []
    if memory is not None:
        evidence["growth_per_step_bytes"] = round(memory.bytes_per_step)
        evidence["low_per_step_bytes"] = round(memory.low_bytes_per_step)
        evidence["high_per_step_bytes"] = round(memory.high_bytes_per_step)
        evidence["last_bytes"] = memory.last_bytes
        if memory.steps_left is not None:
            evidence["steps_left_count"] = memory.steps_left
        whose = "Device memory" if memory.of_device else "The process's memory"
        said.append(f"{whose} grows by {size(memory.bytes_per_step)} per step")
        if memory.steps_left is not None:
            said[0] += f", which fills the device in {memory.steps_left:,} steps"
    for phase, growth in slower.items():
        evidence[f"{phase.value}_first_ns"] = growth.first
        evidence[f"{phase.value}_last_ns"] = growth.last
        said.append(
            f"{phase.value} went from {duration(growth.first)} to {duration(growth.last)} in this "
            f"run"
        )
    if kept:
        said.append("the graphs of earlier steps are kept, and memory with them")
    sure = kept or memory is not None
    severity = grade(saving, step_ns) if sure else Severity.INFO
    fast = memory is not None and memory.bytes_per_step >= WARN_BYTES_PER_STEP
    if severity is Severity.INFO and (kept or fast):
        severity = Severity.WARNING
    title = "; ".join(said)
    advice, change = ADVICE, _change(kept=kept)
    if line is not None and _COPIES.search(line.source):
        advice, change = COPIED, ROWS
    return Finding(
        id=ID,
        severity=severity,
        title=title[0].upper() + title[1:],
        advice=advice if sure else UNSURE + advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.8 if sure else 0.3,
        where=(*place(line), *(Where(phase=phase.value) for phase in slower)),
        change=change,
        explains=EXPLAINS,
    )


def _change(*, kept: bool | None) -> str:
    if kept is not False:
        return "self.total += loss.detach()  # instead of self.losses.append(loss)"
    return "self.items = collections.deque(maxlen=1000)  # instead of a list without a bound"


def place(line: LineCount | None) -> tuple[Where, ...]:
    """Return a line as a place, where there is one."""
    return () if line is None else (Where.at(line, phase=line.phase),)
