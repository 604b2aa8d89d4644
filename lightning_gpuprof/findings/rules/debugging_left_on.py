"""A tool for debugging was left on: it is told of every call, line or allocation.

## What it measures
What is on at the end of the first batch: `tracemalloc`, a function of `sys.settrace` or
`sys.setprofile` (a debugger, coverage, `cProfile`, Lightning's `AdvancedProfiler`), the debug hooks
of Python's allocator (`PYTHONMALLOC=debug`, `python -X dev`), `gc.set_debug`, the environment's
`CUDA_LAUNCH_BLOCKING` and `TORCH_DISTRIBUTED_DEBUG=DETAIL`. And `python_ns`: what a step takes
beside the operators of a trace, which is Python's, and which such a tool slows down.

## Why it matters
A training step makes thousands of calls and allocations in Python. A tool that looks at each of
them makes all of Python slower, by a half or several times, while nothing looks slow by itself:
every phase just takes longer.

## What to do
Switch it off, and on again for the steps in which something is looked for. Where tests are meant to
measure coverage the cost is theirs: judge speed without it.

## Thresholds
`SHARES`: which part of the time in Python a tool takes, measured with small training programs in
pairs (docs/adr/0031): by how much depends on what Python does, so the bounds are wide. A tracer
written in Python costs what it does, and that may be nearly all. With blocking launches host and
device take turns where they could run at the same time: at most half of the step goes. On a GPU
Python may be hidden behind the device, so the low bound is 0, as it is without a trace. Of
`gc.set_debug` and of checked collectives the cost is not known: they are named without a saving.
Severity: the common scale (`findings/grade.py`), and at least a warning: nobody trains with these
on purpose.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
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
from lightning_gpuprof.records.debugging import Debugging, Tool, debugging
from lightning_gpuprof.units import duration

ID = "debugging-left-on"
EFFORT = Effort(Horizon.QUICK, "one line or variable goes", "what it was to find is not looked for")
SHARES: dict[Tool, tuple[float, float]] = {
    Tool.TRACEMALLOC: (0.5, 0.85),
    Tool.TRACE: (0.3, 0.8),
    Tool.PROFILE: (0.2, 0.6),
    Tool.ALLOCATOR: (0.05, 0.4),
}
DEEP = (0.75, 0.95)
"""`tracemalloc` with more than one frame per allocation."""
EXPLAINS = ("host-bound", "small-kernels", "slow-python")
"""All of Python is slower while it is on."""
_ADVANCED = "AdvancedProfiler"
_TITLES = {
    Tool.TRACEMALLOC: "tracemalloc traces every allocation",
    Tool.TRACE: "{by} is called for every line that runs (sys.settrace)",
    Tool.PROFILE: "{by} is called for every call and return (sys.setprofile)",
    Tool.ALLOCATOR: "Python's allocator checks every block ({by})",
    Tool.GC: "Garbage collections are debugged (gc.set_debug)",
    Tool.LAUNCH_BLOCKING: "The host waits for every kernel ({by})",
    Tool.DISTRIBUTED: "Every collective is checked between the ranks first ({by})",
}
_CHANGES = {
    Tool.TRACEMALLOC: "tracemalloc.stop()  # or no tracemalloc.start(), nor PYTHONTRACEMALLOC",
    Tool.TRACE: "sys.settrace(None)  # or train without the debugger or coverage",
    Tool.PROFILE: "sys.setprofile(None)  # or train without cProfile",
    Tool.ALLOCATOR: "unset PYTHONMALLOC PYTHONDEVMODE  # and python without -X dev",
    Tool.GC: "gc.set_debug(0)",
    Tool.LAUNCH_BLOCKING: "unset {name}",
    Tool.DISTRIBUTED: "unset TORCH_DISTRIBUTED_DEBUG",
}


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for each tool that was on."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    step_ns = run.step_ns
    found = debugging(run.notes)
    # It follows calls inside of actions alone, so the look may fall between two of them.
    if run.start.trainer.get("profiler") == _ADVANCED and all(
        one.tool is not Tool.PROFILE for one in found
    ):
        found += (Debugging(Tool.PROFILE, _ADVANCED),)
    return tuple(_finding(run, step_ns, one) for one in found if _counts(run, one.tool))


def _counts(run: RunResults, tool: Tool) -> bool:
    if tool is Tool.LAUNCH_BLOCKING:
        return run.on_gpu
    return tool is not Tool.DISTRIBUTED or run.start.world_size > 1


def _finding(run: RunResults, step_ns: int, one: Debugging) -> Finding:
    python_ns = _python_ns(run, step_ns)
    saving = _saving(run, one, step_ns, python_ns)
    severity = grade(saving, step_ns)
    evidence: dict[str, int | float] = {"step_ns": step_ns}
    if python_ns is not None and one.tool in SHARES:
        evidence["python_ns"] = python_ns
    change = _CHANGES[one.tool].format(name=one.by.split("=")[0])
    if one.tool is Tool.PROFILE and run.start.trainer.get("profiler") == _ADVANCED:
        change = 'Trainer(..., profiler=None)  # not "advanced"'
    place = one.place
    return Finding(
        id=ID,
        severity=Severity.WARNING if severity is Severity.INFO else severity,
        title=_TITLES[one.tool].format(by=one.by)
        + (f": up to {duration(saving.high)} of each step" if saving.high else ""),
        advice="Switch it off, and on again only for the steps you debug. If it is on for a reason "
        "(test coverage), do not judge speed by this run.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if saving.low else 0.6,
        where=(
            Where(name=one.by if one.tool is not Tool.TRACEMALLOC else "tracemalloc")
            if place is None
            else Where.at(place),
        ),
        change=change,
        explains=EXPLAINS,
    )


def _saving(run: RunResults, one: Debugging, step_ns: int, python_ns: int | None) -> Range:
    tool = one.tool
    if tool is Tool.LAUNCH_BLOCKING:
        return Range(low=0, high=step_ns // 2)
    if tool not in SHARES:
        return Range(low=0, high=0)
    low, high = DEEP if tool is Tool.TRACEMALLOC and one.by != "1" else SHARES[tool]
    if python_ns is None:
        return Range(low=0, high=round(high * step_ns))
    return Range(low=0 if run.on_gpu else round(low * python_ns), high=round(high * python_ns))


def _python_ns(run: RunResults, step_ns: int) -> int | None:
    """Return what a step takes beside its operators; None without a trace."""
    facts = trace_facts(run)
    if facts is None or not facts.operators:
        return None
    return max(0, step_ns - round(sum(op.self_ns for op in facts.operators.values())))
