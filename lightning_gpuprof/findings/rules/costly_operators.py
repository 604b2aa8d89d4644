"""One kind of operation takes much of the step, and there is a cheaper way to its result.

## Symptom
Sorts, decompositions of matrices, attention written out, or the backward pass of indexing take a
tenth of the step or more.

## Why
A sort orders what a threshold or `topk` only has to pick from; a decomposition takes many times as
long as a product; attention written out moves all scores through memory.

## Fix
```python
values, _ = x.sort(); top = values[-8:]  # before
top = x.topk(8, sorted=False).values  # after
```

## How it is measured
`operators_ns`: time per step of the operators of one row of `findings/operators.toml`, and of the
graph's nodes behind them, from a trace.

## Limits
What the other way takes is not known, so nothing is the least saving, and in a model it is no more
than a warning.
"""

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.findings.operators import Cost, Pattern, in_trace
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

MOST = 2
EFFORT = Effort(
    Horizon.MEDIUM,
    "one operation is replaced by another, or done in one step of many",
    "results may differ: compare the losses",
)


@rule(id="costly-operators", needs=("operators",), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each row, of the model and of the optimizer."""
    found = []
    for cost in in_trace(run, measured(trace_facts(run))):
        model_ns = cost.forward_ns + cost.backward_ns
        found.append(_finding(run, cost, model_ns, Phase.FORWARD))
        found.append(_finding(run, cost, cost.update_ns, Phase.OPTIMIZER_STEP))
    return tuple(one for one in found if one is not None)


def _finding(run: RunResults, cost: Cost, taken_ns: int, phase: Phase) -> Finding | None:
    step_ns, row = measured(run.step_ns), cost.pattern
    if taken_ns < row.share * step_ns:
        return None
    low, high = row.saving
    saving = Range(low=round(low * taken_ns), high=min(step_ns, round(high * taken_ns)))
    severity = grade(saving, step_ns)
    updates = phase is Phase.OPTIMIZER_STEP
    if severity is Severity.CRITICAL and not updates:
        severity = Severity.WARNING
    lines = tuple(Where.at(one, phase=phase.value) for one in _written(run, phase, row))
    return Finding(
        severity=severity,
        title=f"{row.name} takes {duration(taken_ns)} of each step ({percent(taken_ns / step_ns)})",
        advice=row.advice,
        evidence={
            "operators_ns": taken_ns,
            "calls_count": round(cost.most.update_calls if updates else cost.most.calls),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.6,
        where=lines or (Where(phase=phase.value, name=cost.most.name),),
        change=row.change,
        explains=("memory-bound-kernels", "unfused-optimizer"),
    )


def _written(run: RunResults, phase: Phase, row: Pattern) -> list[LineCount]:
    """Return the lines of a phase that are written as such a call, the most often seen first."""
    seen = run.lines.of(phase) if run.lines else []
    at: dict[tuple[str, int], LineCount] = {}
    for one in seen:
        if one.count >= LEAST_COUNT and row.fits_text(one):
            at.setdefault((one.file, one.line), one)
    return [*at.values()][:MOST]
