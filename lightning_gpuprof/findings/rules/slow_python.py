"""Lines of the training step do work that is not the model's.

## Symptom
Stack samples show the training thread in other libraries, metrics, hooks or plain Python during
forward, backward or gradient clipping.

## Why
Such work runs between the model's operators, and the device waits for it.

## Fix
Do the work once, in the dataset, on whole tensors, or in one step of many.

```python
words = json.loads(self.table)  # before: in training_step
self.words = json.loads(table)  # after: in __init__
```

## How it is measured
`python_ns` is the share of a phase's stack samples at such lines, times the duration of the phase,
with the interval that so many samples allow. A sample of a line that called no function may have
been in an operator of torch. Such samples count if a trace shows that forward takes longer than its
operators.

## Limits
The rule is silent below 5% of the step, and with fewer than 50 samples. Where the interval begins
near zero, the finding is `info`. Calls of `self.log` are reported by `slow-logging`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import is_early, trace_facts
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.analysis.savings.host_work import SHORT_NS, host_work
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.operators import workers_advice
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percents

MOSTLY = 0.5
LEFT_FRAC = 0.1
LEAST_SCALE = 0.5
"""If the profiler made steps take twice as long, which part of them it slowed is not known."""
MIN_FRAC = 0.05
NEAR_ZERO = 0.1
"""An interval that begins below this share of its end may be of no cost at all."""
MOST_LINES = 3
_MODELS = {"model", "torch", "lightning"}
_MAKES = r"(tensor|as_tensor|asarray|from_numpy)\b"
_OPERATOR = re.compile(rf"\b(torch|functional|F)\.(\w+\.)*(?!{_MAKES})\w+\(")
"""A line that calls an operator of torch by name spent its time in it. Making a tensor from a list,
however, is work of Python."""


MOVED_EFFORT = Effort(Horizon.MEDIUM, "the work is moved, or done on whole tensors", "none")
FEWER_EFFORT = Effort(Horizon.QUICK, "arguments, or fewer calls", "values are shown less often")
HOOK_EFFORT = Effort(
    Horizon.QUICK, "a condition in the hook", "what it observes is seen less often"
)
CLIP_EFFORT = Effort(Horizon.QUICK, "one call for all tensors", "none")
WORKERS_EFFORT = Effort(Horizon.MEDIUM, "how batches reach your own processes", "none")


@dataclass(frozen=True)
class WorkKind:
    """A kind of work between operators.

    Args:
        what: What the finding's title says the time goes to.
        advice: What to do; None for the list of advice on worker processes.
        effort: What this advice takes and risks.
    """

    what: str
    advice: str | None
    effort: Effort = MOVED_EFFORT


PLAIN_PYTHON = WorkKind(
    "Python in {function}",
    "Do this work once and keep the result, move it into the dataset, do it in one step of many, "
    "or write it as operators over whole tensors.",
)
OF_PREDICT = (
    "Call the metric's update() for each batch and its compute() once, after the last batch."
)
OF_UPDATE = (
    "update() itself takes this time. Ask the metric for less (fewer thresholds, "
    "validate_args=False), update it on fewer batches, or collect outputs and compute it once, "
    "after the last batch."
)
_UPDATE = re.compile(r"\.update\(")
ONLY_OBSERVES = "Remove a hook that only observes, or let it run in one step of many."
KINDS = {
    "python": PLAIN_PYTHON,
    "own": PLAIN_PYTHON,
    "workers": WorkKind("waiting for your own worker processes", None, WORKERS_EFFORT),
    "metric": WorkKind(
        "a metric in {function}",
        "Call the metric's update() in each step and log the metric object with on_step=False and "
        "on_epoch=True: its value is then computed once per epoch.",
        FEWER_EFFORT,
    ),
    "log": WorkKind(
        "what {function} logs",
        "Log fewer values, once in many steps: collect them in one tensor, and pass on_step=False "
        "where the epoch's mean is enough.",
        FEWER_EFFORT,
    ),
    "hook": WorkKind(
        "{function}, a module's hook",
        f"{ONLY_OBSERVES} Work of the model belongs in forward.",
        HOOK_EFFORT,
    ),
    "gradient": WorkKind(
        "{function}, called in backward",
        f"{ONLY_OBSERVES} Change all gradients at once, in on_before_optimizer_step or the "
        "optimizer.",
        HOOK_EFFORT,
    ),
    "clip": WorkKind(
        "clipping in {function}",
        "Clip all tensors at once (clip_grad_norm_, torch._foreach_norm).",
        CLIP_EFFORT,
    ),
}
"""By the kind of the sampled lines, which are the recorder's words (`LineCount.kind`), or by phase:
`own` for lines that call nothing, `gradient` in backward, `clip` in gradient clipping."""


@rule(id="slow-python", needs=("steps", "lines"), effort=MOVED_EFFORT)
def judge(run: RunResults) -> tuple[Finding, ...]:
    """Return a finding for each kind of work that is not the model's."""
    lines = measured(run.lines)
    forward = [line for line in lines.of(Phase.FORWARD) if not line.waits]
    kinds = _by_kind(forward, lines.of(Phase.LOGGING))
    reported = [line for of_kind in kinds.values() for line in of_kind]
    gradient = [line for line in lines.of(Phase.BACKWARD) if _in_hook(line)]
    findings = (
        *(_finding(run, lines, Phase.FORWARD, kind, of_kind) for kind, of_kind in kinds.items()),
        _beside_operators(run, lines, forward, reported),
        _finding(run, lines, Phase.CLIP_GRADIENTS, "clip", lines.of(Phase.CLIP_GRADIENTS)),
        _finding(run, lines, Phase.BACKWARD, "gradient", gradient),
    )
    return tuple(finding for finding in findings if finding is not None)


def _in_hook(line: LineCount) -> bool:
    """Return whether a line of the backward pass belongs to a hook, or calls no operator."""
    if line.waits or line.kind in _MODELS - {"torch"} or "backward(" in line.source:
        return False
    return line.function != "backward" or line.kind == "python"


def _by_kind(
    lines: Sequence[LineCount], logging: Sequence[LineCount]
) -> dict[str, list[LineCount]]:
    """Return the lines of forward by the kind of their work.

    A sample in which a line called nothing may have been in an operator. Such a sample has the kind
    of the line's other samples. Without any, it is Python if its function has at least as many
    samples in Python, and none in the model.
    """
    by_line: dict[tuple[str, int], str] = {(line.file, line.line): "log" for line in logging}
    by_function: dict[tuple[str, str], Counter[str | None]] = {}
    for line in lines:
        by_function.setdefault((line.file, line.function), Counter())[line.kind] += line.count
        if line.kind is not None and line.kind in KINDS:
            by_line.setdefault((line.file, line.line), line.kind)
    kinds: dict[str, list[LineCount]] = {}
    for line in lines:
        in_function = by_function[line.file, line.function]
        kind = line.kind
        if kind is None:
            kind = by_line.get((line.file, line.line))
        mostly_python = in_function["python"] >= in_function[None]
        if kind is None and mostly_python and not in_function.keys() & _MODELS:
            kind = "python"
        if kind in KINDS and line.kind != "log":
            kinds.setdefault(kind, []).append(line)
    return kinds


def _beside_operators(
    run: RunResults, lines: HostLines, forward: Sequence[LineCount], reported: Sequence[LineCount]
) -> Finding | None:
    """Return the finding about lines whose time in forward is not in their operators."""
    work, spent, facts = host_work(run), run.per_step(Phase.FORWARD), trace_facts(run)
    own = [line for line in forward if line.kind is None and line not in reported]
    own = [line for line in own if not _OPERATOR.search(line.source)]
    if work is None or facts is None or spent is None or not own or run.on_gpu:
        return None
    if facts.host_scale < LEAST_SCALE:
        return None
    whole = lines.by_phase[Phase.FORWARD.value]
    # The trace is scaled to the median step, and its steps may be from before forward grew.
    usual_ns = min(spent.median_ns, spent.early_ns) if is_early(run) else spent.median_ns
    reported_ns = sum(line.count for line in reported) / whole * spent.mean_ns
    beside_ns = max(0.0, usual_ns - work.forward_operators_ns - reported_ns)
    left_ns = round(max(0.0, beside_ns - SHORT_NS * work.calls))
    if left_ns < MOSTLY * sum(line.count for line in own) / whole * spent.mean_ns:
        return None
    own.sort(key=lambda line: -line.count)
    within = Range(low=left_ns, high=round(beside_ns))
    return _finding(run, lines, Phase.FORWARD, "own", own, within=within)


def _finding(
    run: RunResults,
    lines: HostLines,
    phase: Phase,
    kind: str,
    of_kind: Sequence[LineCount],
    *,
    within: Range | None = None,
) -> Finding | None:
    """Return the finding about the lines of one kind.

    `within` bounds the time that the phase has for these lines; None is the whole phase.
    """
    spent, step_ns = run.per_step(phase), measured(run.step_ns)
    count = sum(line.count for line in of_kind)
    if spent is None or not count:
        return None
    within = within or Range(low=spent.mean_ns, high=spent.mean_ns)
    low, high = lines.interval(of_kind, phase)
    cost_ns = round(min(count / lines.by_phase[phase.value] * spent.mean_ns, within.low))
    if cost_ns < MIN_FRAC * step_ns or not low:
        return None
    least_ns = min(low * spent.mean_ns, within.low)
    at_most_ns = min(step_ns, high * spent.mean_ns, within.high)
    most_ns = min(step_ns, (1 + AROUND_FRAC) * at_most_ns)
    saving = Range(low=round((1 - LEFT_FRAC) * least_ns), high=round(most_ns))
    uncertain = least_ns < NEAR_ZERO * at_most_ns
    return Finding(
        severity=Severity.INFO if uncertain else Severity.BY_SAVING,
        title=f"{percents(least_ns / step_ns, at_most_ns / step_ns)} of each step goes to "
        f"{KINDS[kind].what.format(function=of_kind[0].named)}",
        advice=_advice(run, kind, of_kind),
        evidence={
            "python_ns": cost_ns,
            "python_frac": cost_ns / step_ns,
            "samples_count": lines.by_phase[phase.value],
        },
        saving_ns=saving,
        cause_ns=Range(round(least_ns), round(at_most_ns)),
        confidence=0.8,
        places=_places(of_kind, phase),
        effort=KINDS[kind].effort,
    )


def _advice(run: RunResults, kind: str, of_kind: Sequence[LineCount]) -> str:
    """Return what to do about work of a kind. `predict` has no logger to log a metric to."""
    updates = sum(line.count for line in of_kind if _UPDATE.search(line.source))
    if kind == "metric" and updates > MOSTLY * sum(line.count for line in of_kind):
        return OF_UPDATE
    if kind == "metric" and run.start.stage == "predict":
        return OF_PREDICT
    return KINDS[kind].advice or workers_advice()


def _places(lines: Sequence[LineCount], phase: Phase) -> tuple[Place, ...]:
    """Return the lines with the most samples."""
    by_line = {(line.file, line.line): line for line in reversed(lines)}
    least = LEFT_FRAC * sum(line.count for line in lines)
    ranked = sorted(by_line.values(), key=lambda line: -line.count)
    ranked = [line for line in ranked if line.count >= least]
    return tuple(Place.at(line, phase=phase.value) for line in ranked[:MOST_LINES])
