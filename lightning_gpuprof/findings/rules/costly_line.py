"""Where most of a step goes, where no rule knows better.

## Symptom
One line of the program, or one operator, takes more of the step than any other.

## Why
A change can save most where most of the time goes.

## Fix
Do it once, on whole tensors, in a smaller type, or not at all.

```python
y = self.table(x.cpu()).to(x.device)  # before
y = self.table(x)  # after
```

## How it is measured
`line_ns`: samples of the training thread's stack at the line, times its phase. Without samples
`operator_ns`: the operator with the most self time in a trace, on the device where there is one.
Rows of `findings/operators.toml` add advice on known operations (sorting, decompositions,
attention, indexing).

## Limits
It is always `info` and promises no saving.
"""

from lightning_gpuprof.analysis.run.line_times import LineTime, line_times
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity, Where
from lightning_gpuprof.findings.operators import Pattern, patterns
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import duration, percent, percents

MIN_FRAC = 0.2
"""A line with less is one of many."""
ADVICE = (
    "Look at what it does, how often and on which sizes: do it once, on whole tensors, in a "
    "smaller type, or not at all."
)
EFFORT = Effort(Horizon.LONG, "to be found out", "not known")


@rule(id="costly-line", needs=("lines or operators",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the line that takes most of the step; else the operator."""
    step_ns, facts = measured(run.step_ns), trace_facts(run)
    lines = line_times(run)
    if lines:
        return _line(run, step_ns, lines[0])
    return _operator(step_ns, facts) if facts is not None else None


def _line(run: RunResults, step_ns: int, line: LineTime) -> Finding | None:
    if line.frac < MIN_FRAC:
        return None
    marks = run.device_time.phases.get(line.phase) if run.device_time else None
    device_ns = marks.mean_ns if marks else None
    inside = f", mostly in {line.callee}" if line.callee else ""
    row = next((one for one in patterns("computing") if one.fits(line)), None)
    return Finding(
        severity=Severity.INFO,
        title=f"{line.function}, line {line.line}, takes "
        f"{percents(line.low_frac, line.high_frac)} of each step",
        advice=f"`{line.source}` is in {line.phase.value}{inside}. {_advice(row)}",
        evidence=evidence_of(
            line_ns=line.mean_ns,
            samples_count=line.count,
            phase_device_ns=device_ns,
            phase_device_frac=None if device_ns is None else device_ns / step_ns,
        ),
        confidence=0.9,
        where=(Where.at(line, phase=line.phase.value, name=line.callee),),
        change=row.change if row else None,
    )


def _operator(step_ns: int, facts: TraceFacts) -> Finding | None:
    every = [op for op in facts.operators.values() if op.name.startswith("aten::")]
    device = facts.on_device or facts.doubted
    several = facts.number("device", "count") or 1  # at the same time
    taken = {
        op.name: (op.device_total_ns or 0.0) / several if device else op.self_ns for op in every
    }
    name = max(taken, key=lambda one: taken[one], default=None)
    if name is None or taken[name] < MIN_FRAC * step_ns:
        return None
    op = facts.operators[name]
    row = next((one for one in patterns("computing") if name in one.operators), None)
    return Finding(
        severity=Severity.INFO,
        title=f"{name} takes {duration(taken[name])} of each step "
        f"({percent(taken[name] / step_ns)})",
        advice=f"It is called {op.calls:,.0f} times. {_advice(row)} "
        "GpuProfCallback(with_stack=True) names the line.",
        evidence={
            "operator_ns": round(taken[name]),
            "host_ns": round(op.self_ns),
            "calls_count": round(op.calls),
        },
        confidence=0.9,
        where=(Where(name=name),),
        change=row.change if row else None,
    )


def _advice(row: Pattern | None) -> str:
    return ADVICE if row is None else row.advice
