"""torch.compile has given a function up: it runs uncompiled wherever it would be compiled anew.

## What it measures
`compilations_count`: how often dynamo had compiled a function when it warned that it would do so no
more (`config.recompile_limit`, 8 by default; earlier `cache_size_limit`). The function, and the
guard that failed last, are what that warning tells.

## Why it matters
Each compilation holds for the shapes, types and Python values it was made with. When the limit is
reached the function runs as if it had not been compiled for all others: nothing fails, and the time
that went into compiling was spent in vain.

## What to do
Where a size changes, mark it (`torch._dynamo.mark_dynamic(x, 0)`), compile with `dynamic=True`, or
pad lengths to a few. Where a Python number changes (a counter, an index of a layer), keep it in a
tensor or out of the function. `TORCH_LOGS=recompiles` prints every reason. A higher limit helps
where there are only a few more cases.

## Thresholds
None: torch says so itself, once for each function. What a compiled function would save is not
known, so no time is claimed; what the compilations took is told by `recompilation`.
"""

import re

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.records.compiling import CompileLimit, compile_limits

ID = "compile-limit"
EFFORT = Effort(Horizon.MEDIUM, "shapes are padded or marked dynamic", "padding computes more")
_SIZE = re.compile(r"tensor '(?P<name>.+)' size mismatch at index (?P<dim>\d+)")
_VALUE = re.compile(r"==|check_obj_id|___check_type_id")
LOCAL = re.compile(r"^[LG]\['(\w+)'\]")
_WRITTEN = re.compile(r"(?!___)[A-Za-z_]\w*(\.(?!__)\w+|\[\d+\]|\['\w+'\])*")
SIZES = (
    "Mark the size that changes as dynamic, compile with dynamic=True, or pad lengths to a few "
    "(buckets)."
)
VALUES = (
    "A Python value that it depends on changes: keep it in a tensor, or out of what is compiled."
)


def evaluate(run: RunResults) -> tuple[Finding, ...]:
    """Return a fact for each function that was given up."""
    return tuple(_finding(one) for one in compile_limits(run.notes))


def _finding(one: CompileLimit) -> Finding:
    advice, change = cure(one.reason)
    return Finding(
        id=ID,
        severity=Severity.WARNING,
        title=f"torch.compile gave {one.place.function} up after {one.count} compilations: it runs "
        "uncompiled where none of them fits",
        advice=f"{advice} What failed last: {one.reason}." if one.reason else advice,
        evidence={"compilations_count": one.count},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        where=(Where.at(one.place, name=one.place.function),),
        change=change,
    )


def cure(reason: str) -> tuple[str, str | None]:
    """Return what to do about a guard that fails, and that as code where it is known.

    >>> cure("tensor 'L['x']' size mismatch at index 0. expected 10, actual 11")[1]
    'torch._dynamo.mark_dynamic(x, 0)  # before the call'
    >>> cure("tensor 'L['batch'][0]' size mismatch at index 1. expected 10, actual 11")[1]
    'torch._dynamo.mark_dynamic(batch[0], 1)  # before the call'
    """
    size = _SIZE.search(reason)
    if size is not None:
        name = LOCAL.sub(r"\1", size["name"])
        if _WRITTEN.fullmatch(name) is None:  # dynamo's own, which no program has
            return SIZES, None
        return SIZES, f"torch._dynamo.mark_dynamic({name}, {size['dim']})  # before the call"
    return (VALUES if _VALUE.search(reason) else f"{SIZES} {VALUES}"), None
