"""Most of a step goes to one place, for which no rule knows a reason.

## Symptom
One line of the program, or one operator, takes more of the step than any other.

## Why
A change can save most where most of the time goes.

## Fix
Do the work once, on whole tensors, in a smaller type, or not at all.

```python
y = self.table(x.cpu()).to(x.device)  # before
y = self.table(x)  # after
```

## How it is measured
`line_ns` is the share of stack samples of the training thread at the line, times the duration of
its phase. Without samples, `operator_ns` is the operator with the most self time in a trace, on the
device if there is one. Rows of `findings/operators.toml` add advice on operations that are known to
be slow, such as sorting, decompositions, attention and indexing.

## Limits
The finding promises a saving only on a CPU, where a trace shows that the operators of such a row
take a fifth of the step: up to all of their time (`heavy_operators_ns`). Else it is `info`.
"""

from lightning_gpuprof.analysis.run.line_samples import LineTime
from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.operators import Pattern, operators
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import duration, percent, percents, times

MIN_FRAC = 0.2
"""A line with a smaller share of the step is one of many."""
ADVICE = (
    "Look at what it does, how often and on which sizes: do it once, on whole tensors, in a "
    "smaller type, or not at all."
)
STACKS = "GpuProfCallback(with_stack=True)"
TORCH_STACKS = "torch.profiler.profile(with_stack=True)"
EFFORT = Effort(Horizon.LONG, "it depends on what the place does", "it depends on the change")


@rule(id="costly-line", needs=("lines or operators",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding about the line that takes most of the step, or else about the operator."""
    step_ns, facts = measured(run.step_ns), trace_facts(run)
    lines = line_times(run)
    if lines:
        return _line(run, step_ns, lines[0])
    return _operator(run, step_ns, facts) if facts is not None else None


def _line(run: RunResults, step_ns: int, line: LineTime) -> Finding | None:
    if line.frac < MIN_FRAC:
        return None
    marks = run.device.time.phases.get(line.phase) if run.device.time else None
    device_ns = marks.mean_ns if marks else None
    inside = f", mostly in {line.callee}" if line.callee else ""
    row = next((row for row in operators().computing if row.fits(line)), None)
    heavy_ns = 0 if row is None or run.on_gpu else min(line.mean_ns, _traced_ns(run, row))
    known = heavy_ns >= MIN_FRAC * step_ns
    saving = Range(0, heavy_ns) if known else Range(0, 0)
    return Finding(
        severity=Severity.BY_SAVING if known else Severity.INFO,
        title=f"{line.function}, line {line.line}, takes "
        f"{percents(line.low_frac, line.high_frac)} of each step",
        advice=f"`{line.source}` is in {line.phase.value}{inside}. {_advice(row)}",
        evidence=evidence_of(
            line_ns=line.mean_ns,
            samples_count=line.count,
            heavy_operators_ns=heavy_ns or None,
            phase_device_ns=device_ns,
            phase_device_frac=None if device_ns is None else device_ns / step_ns,
        ),
        saving_ns=saving,
        cause_ns=saving if known else None,
        confidence=0.5 if known else 0.9,
        places=(Place.at(line, phase=line.phase.value, name=line.callee),),
        change=row.change if row else None,
    )


def _traced_ns(run: RunResults, row: Pattern) -> int:
    """Return the time per step of a row's operators outside the backward pass; 0 without a trace.

    It is the host's, so that of the operators themselves only on a CPU.
    """
    facts = trace_facts(run)
    heavy = [facts.operators.get(name) for name in row.operators] if facts else []
    return round(
        sum(op.self_ns * (1 - op.backward_calls / op.calls) for op in heavy if op is not None)
    )


def _operator(run: RunResults, step_ns: int, facts: TraceFacts) -> Finding | None:
    by_name = {name: op for name, op in facts.operators.items() if name.startswith("aten::")}
    on_device = facts.on_device or facts.doubted
    devices = (
        facts.analysis.device.count if facts.analysis.device else 1
    )  # they work at the same time
    spent_ns = {
        name: (op.device_total_ns or 0.0) / devices if on_device else op.self_ns
        for name, op in by_name.items()
    }
    name = max(spent_ns, key=lambda name: spent_ns[name], default=None)
    if name is None or spent_ns[name] < MIN_FRAC * step_ns:
        return None
    is_foreign = not run.trains and not run.phases  # a trace of inference, without records
    op = facts.operators[name]
    row = next((row for row in operators().computing if name in row.operators), None)
    return Finding(
        severity=Severity.INFO,
        title=f"{name} takes {duration(spent_ns[name])} of each step "
        f"({percent(spent_ns[name] / step_ns)})",
        advice=f"It is called {times(op.calls)}. {_advice(row)} "
        f"{TORCH_STACKS if is_foreign else STACKS} names the line.",
        evidence={
            "operator_ns": round(spent_ns[name]),
            "host_ns": round(op.self_ns),
            "calls_count": round(op.calls),
        },
        confidence=0.9,
        places=(Place(name=name),),
        change=row.change if row else None,
    )


def _advice(row: Pattern | None) -> str:
    return ADVICE if row is None else row.whole_advice
