"""A mode of torch's stays open around training steps: each operator goes through Python.

## What it measures
Which classes of `TorchDispatchMode` and `TorchFunctionMode` were on torch's stacks in two batches
in a row, and are still: read where modules are called, right before the backward pass and in it,
whoever opened them, and whenever. Modes that torch and Lightning need themselves (a default device,
checkpointing that keeps some results) are left out. And from a trace, `own_ns`: what the calls of
dispatch modes take beside the operators that they are told of (`PythonDispatchMode`), and
`beside_ns`: what operators take at most that a mode calls for itself, to search for NaN, say.

## Why it matters
Without a mode torch hands an operator on in about a microsecond. With one it makes Python objects
of its inputs, calls the mode's method, is called again from there, and takes the result apart: 6 to
70 µs for each of forward, backward and update, and what the method itself does.

## What to do
Open it in the first step, or in one of many, and use again what it told: `FlopCounterMode` counts
the same in each step with the same shapes. A mode that changes what operators give is part of the
model: do what it does in the modules that it is meant for.

## Thresholds
`HIGH`: of a dispatch mode's calls the trace shows what they take, but not what torch does before
it records them and behind, nor hooks that a mode puts on modules: with four modes and four models
1.0 to 2.0 times what was recorded, scaled to steps without the profiler, was measured on such
steps (docs/adr/0031), of operators that a mode calls for itself up to `BESIDE_HIGH` times. The
least is what was recorded, scaled, with the least of what the mode may have called. torch before
`RECORDED` records no such calls: then nothing is the least, and the most all of forward and
backward that is in no operator. Neither has a function mode an event: at least it takes what
samples saw in its method on lines that do not call the function on (`f(*args, **kwargs)`), and at
most these and all of the step that is in no operator (`python_ns`). On a GPU the host may be ahead:
nothing is the least. Without a trace the saving is between nothing and half of the step. Severity:
the common scale (`findings/grade.py`).
"""

import re

from lightning_gpuprof.analysis.run.host_lines import HostLines, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.host_work import host_work
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.torch_modes import TorchMode, torch_modes
from lightning_gpuprof.units import duration

ID = "operators-through-python"
EFFORT = Effort(Horizon.QUICK, "a condition around what opens it", "it tells of fewer steps")
HIGH, BESIDE_HIGH = 2.0, 1.5
RECORDED = (2, 10)
EXPLAINS = ("host-sync", "host-bound", "small-kernels", "slow-python", "costly-operators")
"""Operators are short beside what goes on around them, a mode may read values, and a line in one
that calls a function on has all that function's time: of `Tensor.backward` a whole pass."""
METHOD = "__torch_function__"
_HANDS_ON = re.compile(r"\w\(\s*\*\w")
"""A line that calls the function with what it was called with."""
_ONLY_LOOKS = (
    "It only looks on: open it in the first step, or in one of many, and use again what it told."
)
_OWN = (
    "If it only looks on (counts, checks, logs), open it in one step of many. If it changes what "
    "operators give, do that in the modules that it is meant for."
)


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained:
    """Return a finding for dispatch modes, and one for function modes, that stay open."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    modes = torch_modes(run.notes)
    of_operators = [one for one in modes if one.dispatch]
    of_functions = [one for one in modes if not one.dispatch]
    found = (
        _dispatch(run, run.step_ns, of_operators) if of_operators else None,
        _function(run, run.step_ns, of_functions) if of_functions else None,
    )
    return tuple(one for one in found if one is not None)


def _dispatch(run: RunResults, step_ns: int, modes: list[TorchMode]) -> Finding | None:
    facts = trace_facts(run)
    if facts is None:
        title = f"{_names(modes)} in every step: each operator of it goes through Python"
        return _finding(modes, title, {}, Range(low=0, high=step_ns // 2), step_ns)
    calls, own_ns, least_ns, most_ns = (
        facts.per_step("mode_calls", key) or 0.0
        for key in ("call_count", "own_ns", "beside_least_ns", "beside_most_ns")
    )
    if not calls and _torch_of(run) >= RECORDED:
        return None  # it was open in a look, and in none of the steps that were recorded
    if not calls:
        title = f"{_names(modes)} in every step: each operator of it goes through Python"
        work = host_work(run)
        beside_ns = work.overhead_ns if work is not None else step_ns // 2
        return _finding(modes, title, {}, Range(low=0, high=min(beside_ns, step_ns)), step_ns)
    low = round(facts.host_scale * (own_ns + least_ns))
    high = round(facts.host_scale * (HIGH * own_ns + BESIDE_HIGH * most_ns))
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    evidence: dict[str, int | float] = {
        "call_count": round(calls),
        "own_ns": round(own_ns),
        "beside_ns": round(most_ns),
    }
    title = (
        f"{_names(modes)} in every step: {round(calls):,} operators of it go through Python, which "
        f"costs up to {duration(saving.high)}"
    )
    return _finding(modes, title, evidence, saving, step_ns)


def _torch_of(run: RunResults) -> tuple[int, ...]:
    numbers = re.findall(r"\d+", run.start.versions.get("torch", ""))[:2]
    return tuple(map(int, numbers)) or RECORDED


def _function(run: RunResults, step_ns: int, modes: list[TorchMode]) -> Finding:
    lines, facts = host_lines(run.notes), trace_facts(run)
    low, high = _seen(lines, step_ns) if lines is not None else (0, 0)
    evidence: dict[str, int | float] = {}
    if facts is not None and facts.operators:
        operators_ns = round(sum(one.self_ns for one in facts.operators.values()))
        evidence["python_ns"] = max(0, step_ns - operators_ns)
        high += int(evidence["python_ns"])
    else:
        high = max(high, step_ns // 2)
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    title = (
        f"{_names(modes)} in every step: each of torch's functions goes through Python, which "
        f"costs up to {duration(saving.high)}"
    )
    return _finding(modes, title, evidence, saving, step_ns)


def _seen(lines: HostLines, step_ns: int) -> tuple[int, int]:
    """Return what a mode's own method takes of a step, between which bounds, by samples."""
    rows = [one for one in lines.lines if one.function == METHOD]
    count = sum(one.count for one in rows if not _HANDS_ON.search(one.source))
    low, high = lines.interval(count)
    return (round(low * step_ns), round(high * step_ns)) if count else (0, 0)


def _finding(
    modes: list[TorchMode],
    title: str,
    evidence: dict[str, int | float],
    saving: Range,
    step_ns: int,
) -> Finding:
    first = modes[0]
    looks = all(one.package == "torch" for one in modes)
    places = tuple(Where.at(one.place) for one in modes if one.place is not None)
    # Functions are called anywhere in a step: then no phase is named.
    passes = (
        (Phase.FORWARD, any(one.dispatch and one.forward for one in modes)),
        (Phase.BACKWARD, any(one.dispatch and one.backward for one in modes)),
    )
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=title,
        advice=_ONLY_LOOKS if looks else _OWN,
        evidence={**evidence, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.8 if looks and saving.low else 0.6,
        where=(places or (Where(name=first.name),))
        + tuple(Where(phase=phase.value) for phase, is_open in passes if is_open),
        change="if trainer.global_step == 0:  # or in one step of many\n"
        f"    mode = {first.name}(...)  # opened, and closed again, in these steps alone",
        explains=EXPLAINS,
    )


def _names(modes: list[TorchMode]) -> str:
    return f"{' and '.join(one.name for one in modes)} {'are' if len(modes) > 1 else 'is'} open"
