"""Lines of the training step do work that is not the model's.

## What it measures
`python_ns`: how much of the forward pass, or of a gradient clipping of the module's own, the
training thread was seen at lines that call other libraries (numpy, json, a metric) rather than the
model, that compute what is logged, or in hooks on modules (their operators too); and how much of
the backward pass in hooks on gradients. From samples of its stack in the first seconds of training.
`self.log` itself is `slow-logging`'s. An autograd function's own `backward` counts where it calls
another library, activations that are computed again do not.

## Why it matters
Such work runs between the operators, one call after the other, and the device waits for it. In the
phases' times it looks like the model's own.

## What to do
Do it once and keep the result, move it into the dataset (where workers can do it), do it on whole
tensors, or in one step of many.

## Thresholds
`MIN_SAMPLES`: at fifty samples a share of a tenth is known to within nine hundredths; a share that
may be nothing is not told. A line that ran itself may have been in an operator. It counts as its
function does, where most of that one's samples are in calls of other libraries. Other such lines
take what the forward pass has left beside its operators, by the trace, the calling of each
(`THIN_NS`) and the work above, if that is most of their time (`MOSTLY`). Not where profiled steps
took more than twice as long as others (`LEAST_SCALE`): which part of them did is not known. A line
that names an operator (`_OPERATOR`) is taken to have been in it.
`MIN_FRAC`: every program logs a loss and calls a function or two, 5% of a step is more than that.
The saving is the share's interval (`run/host_lines.py`) of the phase's own time; `LEFT_FRAC`
may stay of the work after it was moved, as for callbacks, and `AROUND_FRAC` more may go with it
(docs/adr/0031). Severity: the common scale
(`findings/grade.py`).
"""

import re
from collections import Counter
from collections.abc import Sequence

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import is_early, trace_facts
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.analysis.savings.host_work import THIN_NS, host_work
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-python"
EFFORT = Effort(Horizon.MEDIUM, "the work is moved, or done on whole tensors", "none")
MIN_SAMPLES = 50
MOSTLY = 0.5
LEFT_FRAC = 0.1
LEAST_SCALE = 0.5
MIN_FRAC = 0.05
MOST_LINES = 3
_MODELS = {"model", "torch", "lightning"}
_MAKES = r"(tensor|as_tensor|asarray|from_numpy)\b"
_OPERATOR = re.compile(rf"\b(torch|functional|F)\.(\w+\.)*(?!{_MAKES})\w+\(")
"""A line that calls an operator by its name was in that; to make a tensor of a list is Python's."""
_WHAT = dict(
    python="Python in {function}, called in the forward pass",
    metric="a metric in {function}, in the forward pass",
    own="Python code in {function}, apart from its operators",
    log="what {function} computes for self.log",
    hook="{function}, a hook on the model's modules",
    clip="{function}: the module clips its gradients itself",
    gradient="{function}, called in the backward pass",
)
_ADVICE = dict(
    python="Do this work once and keep the result, move it into the dataset, where workers can "
    "do it, or write it as operators over whole tensors.",
    own="Do this work once and keep the result, do it only every so many steps, move it into the "
    "dataset, or write it as operators over whole tensors.",
    metric="Call the metric's update() in each step instead of the metric itself, and have its "
    "value computed when it is shown: give self.log the metric object, with on_step=False and "
    "on_epoch=True.",
    log="Log fewer values, once in many steps: collect them in one tensor, and pass "
    "on_step=False where the epoch's mean is enough.",
    hook="A hook that only looks at the model can go, or look at one step in many: register it for "
    "those, or return at once in the others. What is part of the model belongs into forward.",
    gradient="A hook that only looks at gradients can go, or look at one step in many. What alters "
    "them belongs on whole tensors, in on_before_optimizer_step or the optimizer.",
    clip="Work on whole tensors (torch._foreach_norm, clip_grad_norm_) instead of one by one.",
)


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for each kind of work that is not the model's."""
    lines = host_lines(run.notes)
    if lines is None or run.step_ns is None:
        return Abstained(ID, "no sample of the training thread's stack was taken")
    if lines.whole < MIN_SAMPLES:
        return Abstained(ID, f"{lines.whole} samples of the stack are too few to say")
    forward = [one for one in lines.of(Phase.FORWARD) if not one.waits]
    kinds = _kinds(forward, lines.of(Phase.LOGGING))
    found = [
        _finding(run, run.step_ns, lines, Phase.FORWARD, kind, seen) for kind, seen in kinds.items()
    ]
    told = [one for seen in kinds.values() for one in seen]
    found.append(_beside_operators(run, run.step_ns, lines, forward, told))
    clipping = lines.of(Phase.CLIP_GRADIENTS)
    found.append(_finding(run, run.step_ns, lines, Phase.CLIP_GRADIENTS, "clip", clipping))
    gradient = [one for one in lines.of(Phase.BACKWARD) if _in_hook(one)]
    found.append(_finding(run, run.step_ns, lines, Phase.BACKWARD, "gradient", gradient))
    return tuple(one for one in found if one is not None)


def _in_hook(one: LineCount) -> bool:
    """Tell whether a line of the backward pass is a hook's, or calls what is no operator."""
    if one.waits or one.kind in _MODELS - {"torch"}:
        return False
    return one.function != "backward" or one.kind == "python"


def _kinds(seen: Sequence[LineCount], logging: Sequence[LineCount]) -> dict[str, list[LineCount]]:
    """Return the lines of each kind of work.

    A line that ran itself may have been in an operator. It counts as work where other samples
    of the same line do (what is computed in a call of `self.log` is computed for the log), and as
    Python in a function of which as many samples are, and none is the model's. `self.log` itself
    is timed as logging, and told by `slow-logging`.
    """
    by_line: dict[tuple[str, int], str] = {(one.file, one.line): "log" for one in logging}
    by_function: dict[tuple[str, str], Counter[str | None]] = {}
    for one in seen:
        by_function.setdefault((one.file, one.function), Counter())[one.kind] += one.count
        if one.kind is not None and one.kind in _WHAT:
            by_line.setdefault((one.file, one.line), one.kind)
    kinds: dict[str, list[LineCount]] = {}
    for one in seen:
        around = by_function[one.file, one.function]
        kind = one.kind
        if kind is None:
            kind = by_line.get((one.file, one.line))
        if kind is None and around["python"] >= around[None] and not around.keys() & _MODELS:
            kind = "python"
        if kind in _WHAT and one.kind != "log":
            kinds.setdefault(kind, []).append(one)
    return kinds


def _beside_operators(
    run: RunResults,
    step_ns: int,
    lines: HostLines,
    forward: Sequence[LineCount],
    told: Sequence[LineCount],
) -> Finding | None:
    """Return a finding where lines of the program take longer by themselves than operators do.

    All of them together: what calls of small functions share is one piece of work.
    """
    work, spent, facts = host_work(run), run.per_step(Phase.FORWARD), trace_facts(run)
    own = [one for one in forward if one.kind is None and one not in told]
    own = [one for one in own if not _OPERATOR.search(one.source)]
    if work is None or facts is None or spent is None or not own or run.on_gpu:
        return None
    if facts.host_scale < LEAST_SCALE:
        return None
    whole = lines.by_phase[Phase.FORWARD.value]
    told_ns = sum(one.count for one in told) / whole * spent.mean_ns
    # The trace is scaled to the median step: what a busy machine adds to the mean is of all parts.
    busy = spent.mean_ns / max(1, spent.median_ns)
    # Where the trace is of the run's first steps what forward has grown by since is not Python's.
    grown = max(1.0, spent.median_ns / max(1, spent.early_ns)) if is_early(run) else 1.0
    as_traced_ns = spent.mean_ns / grown
    beside_ns = max(0, round(as_traced_ns - busy * work.forward_operators_ns - told_ns))
    left_ns = max(0, round(beside_ns - busy * THIN_NS * work.calls))
    if left_ns < MOSTLY * sum(one.count for one in own) / whole * spent.mean_ns:
        return None
    functions: dict[str, int] = {}
    for one in own:
        functions[one.function] = functions.get(one.function, 0) + one.count
    own.sort(key=lambda one: (-functions[one.function], -one.count))
    within = Range(low=left_ns, high=beside_ns)
    return _finding(run, step_ns, lines, Phase.FORWARD, "own", own, within=within)


def _finding(
    run: RunResults,
    step_ns: int,
    lines: HostLines,
    phase: Phase,
    kind: str,
    seen: Sequence[LineCount],
    *,
    within: Range | None = None,
) -> Finding | None:
    """Return a finding of lines; `within` says what the phase has for them at least and at most."""
    spent = run.per_step(phase)
    count = sum(one.count for one in seen)
    if spent is None or not count:
        return None
    within = within or Range(low=spent.mean_ns, high=spent.mean_ns)
    low, high = lines.interval(count, phase)
    cost_ns = round(min(count / lines.by_phase[phase.value] * spent.mean_ns, within.low))
    if cost_ns < MIN_FRAC * step_ns or not low:
        return None
    least_ns = min(low * spent.mean_ns, within.low)
    most_ns = min(step_ns, (1 + AROUND_FRAC) * min(high * spent.mean_ns, within.high))
    saving = Range(low=round((1 - LEFT_FRAC) * least_ns), high=round(most_ns))
    where = _places(seen, phase)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{duration(cost_ns)} of each step ({percent(cost_ns / step_ns)}) goes to "
        f"{_WHAT[kind].format(function=seen[0].named)}",
        advice=_ADVICE[kind],
        evidence={
            "python_ns": cost_ns,
            "python_frac": cost_ns / step_ns,
            "samples_count": lines.by_phase[phase.value],
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=where,
    )


def _places(seen: Sequence[LineCount], phase: Phase) -> tuple[Where, ...]:
    places = {(one.file, one.line): one for one in reversed(seen)}
    least = LEFT_FRAC * sum(one.count for one in seen)
    ranked = sorted(places.values(), key=lambda one: -one.count)
    ranked = [one for one in ranked if one.count >= least]
    return tuple(Where.at(one, phase=phase.value) for one in ranked[:MOST_LINES])
