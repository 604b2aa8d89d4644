"""Lines of the training step do work that is not the model's.

## Symptom
The training thread is seen in other libraries, metrics, hooks or plain Python during forward,
backward or gradient clipping.

## Why
Such work runs between the operators, and the device waits for it.

## Fix
Do it once, in the dataset, on whole tensors, or in one step of many.

```python
words = json.loads(self.table)  # before: in training_step
self.words = json.loads(table)  # after: in __init__
```

## How it is measured
`python_ns`: share of a phase's stack samples at such lines, times the phase, with its interval. A
line that ran itself counts where the trace shows that forward has time beside its operators.

## Limits
Below 5% of the step nothing is said, nor with fewer than 50 samples; where the interval begins near
0 it is no warning. `self.log` is `slow-logging`.
"""

import re
from collections import Counter
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import is_early, trace_facts
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.analysis.savings.host_work import THIN_NS, host_work
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.findings.operators import tables, workers_advice
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percents

MOSTLY = 0.5
LEFT_FRAC = 0.1
LEAST_SCALE = 0.5
"""Of steps that took twice as long under the profiler it is not known which part of them did."""
MIN_FRAC = 0.05
NEAR_0 = 0.1
"""Of an interval that begins below so much of its end it is not known whether there is a cost."""
MOST_LINES = 3
_MODELS = {"model", "torch", "lightning"}
_MAKES = r"(tensor|as_tensor|asarray|from_numpy)\b"
_OPERATOR = re.compile(rf"\b(torch|functional|F)\.(\w+\.)*(?!{_MAKES})\w+\(")
"""A line that calls an operator by its name was in that; to make a tensor of a list is Python's."""
KINDS: dict[str, dict[str, str]] = tables("advice.toml")["python"]
EFFORT = Effort(Horizon.MEDIUM, "the work is moved, or done on whole tensors", "none")


@rule(id="slow-python", needs=("steps", "lines"), effort=EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each kind of work that is not the model's."""
    lines = measured(run.lines)
    forward = [one for one in lines.of(Phase.FORWARD) if not one.waits]
    kinds = _kinds(forward, lines.of(Phase.LOGGING))
    reported = [one for seen in kinds.values() for one in seen]
    gradient = [one for one in lines.of(Phase.BACKWARD) if _in_hook(one)]
    found = (
        *(_finding(run, lines, Phase.FORWARD, kind, seen) for kind, seen in kinds.items()),
        _beside_operators(run, lines, forward, reported),
        _finding(run, lines, Phase.CLIP_GRADIENTS, "clip", lines.of(Phase.CLIP_GRADIENTS)),
        _finding(run, lines, Phase.BACKWARD, "gradient", gradient),
    )
    return tuple(one for one in found if one is not None)


def _in_hook(one: LineCount) -> bool:
    """Tell whether a line of the backward pass is a hook's, or calls no operator."""
    if one.waits or one.kind in _MODELS - {"torch"} or "backward(" in one.source:
        return False
    return one.function != "backward" or one.kind == "python"


def _kinds(seen: Sequence[LineCount], logging: Sequence[LineCount]) -> dict[str, list[LineCount]]:
    """Return the lines of each kind of work.

    A line that ran itself may have been in an operator. It has the kind of other samples of that
    line; or it is Python where its function has as many such samples and none of the model's.
    """
    by_line: dict[tuple[str, int], str] = {(one.file, one.line): "log" for one in logging}
    by_function: dict[tuple[str, str], Counter[str | None]] = {}
    for one in seen:
        by_function.setdefault((one.file, one.function), Counter())[one.kind] += one.count
        if one.kind is not None and one.kind in KINDS:
            by_line.setdefault((one.file, one.line), one.kind)
    kinds: dict[str, list[LineCount]] = {}
    for one in seen:
        around = by_function[one.file, one.function]
        kind = one.kind
        if kind is None:
            kind = by_line.get((one.file, one.line))
        if kind is None and around["python"] >= around[None] and not around.keys() & _MODELS:
            kind = "python"
        if kind in KINDS and one.kind != "log":
            kinds.setdefault(kind, []).append(one)
    return kinds


def _beside_operators(
    run: RunResults, lines: HostLines, forward: Sequence[LineCount], reported: Sequence[LineCount]
) -> Finding | None:
    """Return a finding where lines of the program take longer by themselves than operators do."""
    work, spent, facts = host_work(run), run.per_step(Phase.FORWARD), trace_facts(run)
    own = [one for one in forward if one.kind is None and one not in reported]
    own = [one for one in own if not _OPERATOR.search(one.source)]
    if work is None or facts is None or spent is None or not own or run.on_gpu:
        return None
    if facts.host_scale < LEAST_SCALE:
        return None
    whole = lines.by_phase[Phase.FORWARD.value]
    # The trace is scaled to the median step, and may be of steps before forward grew.
    usual_ns = min(spent.median_ns, spent.early_ns) if is_early(run) else spent.median_ns
    reported_ns = sum(one.count for one in reported) / whole * spent.mean_ns
    beside_ns = max(0.0, usual_ns - work.forward_operators_ns - reported_ns)
    left_ns = round(max(0.0, beside_ns - THIN_NS * work.calls))
    if left_ns < MOSTLY * sum(one.count for one in own) / whole * spent.mean_ns:
        return None
    own.sort(key=lambda one: -one.count)
    within = Range(low=left_ns, high=round(beside_ns))
    return _finding(run, lines, Phase.FORWARD, "own", own, within=within)


def _finding(
    run: RunResults,
    lines: HostLines,
    phase: Phase,
    kind: str,
    seen: Sequence[LineCount],
    *,
    within: Range | None = None,
) -> Finding | None:
    """Return a finding of lines; `within` bounds what the phase has for them."""
    spent, step_ns = run.per_step(phase), measured(run.step_ns)
    count = sum(one.count for one in seen)
    if spent is None or not count:
        return None
    within = within or Range(low=spent.mean_ns, high=spent.mean_ns)
    low, high = lines.interval(seen, phase)
    cost_ns = round(min(count / lines.by_phase[phase.value] * spent.mean_ns, within.low))
    if cost_ns < MIN_FRAC * step_ns or not low:
        return None
    least_ns = min(low * spent.mean_ns, within.low)
    held_ns = min(step_ns, high * spent.mean_ns, within.high)
    most_ns = min(step_ns, (1 + AROUND_FRAC) * held_ns)
    saving = Range(low=round((1 - LEFT_FRAC) * least_ns), high=round(most_ns))
    unsure = least_ns < NEAR_0 * held_ns
    return Finding(
        severity=Severity.INFO if unsure else Severity.BY_SAVING,
        title=f"{percents(least_ns / step_ns, held_ns / step_ns)} of each step goes to "
        f"{KINDS[kind]['what'].format(function=seen[0].named)}",
        advice=KINDS[kind].get("advice") or workers_advice(),
        evidence={
            "python_ns": cost_ns,
            "python_frac": cost_ns / step_ns,
            "samples_count": lines.by_phase[phase.value],
        },
        saving_ns=saving,
        cause_ns=Range(round(least_ns), round(held_ns)),
        confidence=0.8,
        where=_places(seen, phase),
    )


def _places(seen: Sequence[LineCount], phase: Phase) -> tuple[Where, ...]:
    places = {(one.file, one.line): one for one in reversed(seen)}
    least = LEFT_FRAC * sum(one.count for one in seen)
    ranked = sorted(places.values(), key=lambda one: -one.count)
    ranked = [one for one in ranked if one.count >= least]
    return tuple(Where.at(one, phase=phase.value) for one in ranked[:MOST_LINES])
