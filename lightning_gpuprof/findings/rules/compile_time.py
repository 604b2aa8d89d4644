"""torch.compile takes much of the run before compiled code runs at all.

## Symptom
The first steps take seconds or minutes, and the run is over before compiled code has made up for
it.

## Why
torch.compile traces a function when it is first called, and generates code for each graph. Where
the graph breaks, more graphs are compiled, and Python runs between them in each step.

## Fix
```python
if x.sum().item() > 0:  # before: .item() breaks the graph here
    x = x + 1

x = torch.where(x.sum() > 0, x + 1, x)  # after: one graph
```

```python
model = torch.compile(model)  # before
for block in model.blocks:  # after: from torch 2.5 on, blocks of one class share their code
    block.compile()
```

```sh
TORCH_COMPILE_DISABLE=1 python train.py  # short runs, and to see whether compiling pays
```

## How it is measured
`compiling_ns` is the time of first compilations by dynamo's own timing, spread over all steps of
the run, and `whole_ns` is that time in all. `run_frac` is its share of the wall time,
`graphs_count` the number of graphs that inductor compiled or loaded from its cache on disk, and
`breaks_count` the number of lines at which the graph breaks.

## Limits
It is reported from 1 s and 20% of the run on; a longer run spends a smaller share on it. How fast
the steps are uncompiled is not known: they are assumed to take at most three times as long. Where
the graph breaks, what compiling takes beyond that can be saved. Otherwise the saving may be
nothing, because a longer run earns it. Compiling again is a finding of its own (`recompilation`).
"""

from collections.abc import Iterator

from lightning_gpuprof.analysis.run.account import Account, Kind, Share
from lightning_gpuprof.analysis.run.compiling import Compiling
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.findings.shares import long_once
from lightning_gpuprof.records.lines import CompileEvent
from lightning_gpuprof.units import duration, percent

MOST_FASTER = 3.0
"""Compiled steps are assumed to be at most this much faster."""
BROKEN_CONFIDENCE, WHOLE_CONFIDENCE = 0.9, 0.25
"""Without a graph break, the run may only be a short trial of one that earns it."""
MOST_PLACES = 3
BROKEN = (
    "Mend the graph breaks (torch.where instead of a branch on a tensor's value, no .item(), no "
    "printing), or compile only the parts without them."
)
WHOLE = (
    "A longer run compiles no more often, and may earn it. For short runs, leave torch.compile out "
    "or compile only the block that repeats: blocks of one class share their code."
)
EARNED = (
    "In a run of this length, compiling pays only if uncompiled steps take more than {times:.1f} "
    "times as long."
)
LOADED = "{loaded} of {graphs} graphs came from inductor's cache on disk: most of it is tracing."
BUILT = (
    "The next run of unchanged code on this machine can load them from inductor's cache on disk "
    "(TORCHINDUCTOR_FX_GRAPH_CACHE, on by default in recent torch)."
)
CACHED_FRAC = 0.5
"""If this share of the graphs was loaded, the cache on disk was in use."""
VERSIONS_FRAC = 0.1
"""Further versions of functions are named if they took this share of the first compilations."""
EFFORT = Effort(
    Horizon.MEDIUM, "lines that break the graph, or what is compiled", "uncompiled steps are slower"
)


@rule(id="compile-time", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the time of first compilations."""
    account, compiling = run.account, run.compiled.time
    share = next((share for share in long_once(run) if share.kind is Kind.COMPILING), None)
    if account is None or compiling is None or share is None:
        return None
    steps, breaks = measured(run.steps).ran, _lines(run.compiled.breaks)
    cost_ns = share.total_ns // steps
    lost_ns = max(0, share.total_ns - round((MOST_FASTER - 1) * account.work_ns)) // steps
    sure_ns = lost_ns if breaks else 0
    return Finding(
        severity=Severity.BY_SAVING if breaks or lost_ns else Severity.INFO,
        title=_title(account, share, breaks),
        advice=_advice(run, account, share, compiling, breaks),
        evidence={
            "compiling_ns": cost_ns,
            "whole_ns": share.total_ns,
            "run_frac": account.frac(share.total_ns),
            "graphs_count": compiling.graphs_built + compiling.graphs_loaded,
            "breaks_count": len(breaks),
        },
        saving_ns=Range(sure_ns, cost_ns),
        cause_ns=Range(cost_ns, cost_ns),
        confidence=BROKEN_CONFIDENCE if breaks else WHOLE_CONFIDENCE,
        when=When.BETWEEN,
        places=(
            *(Place.at(event.place) for event in breaks[:MOST_PLACES]),
            Place(phase=share.phase.value, name=share.name),
        ),
        change="TORCH_COMPILE_DISABLE=1 python train.py  # is it faster uncompiled?",
    )


def _lines(breaks: tuple[CompileEvent, ...]) -> tuple[CompileEvent, ...]:
    """Return the first break of each line."""
    by_line: dict[tuple[str, int], CompileEvent] = {}
    for event in breaks:
        by_line.setdefault((event.place.file, event.place.line), event)
    return tuple(by_line.values())


def _title(account: Account, share: Share, breaks: tuple[CompileEvent, ...]) -> str:
    frac = percent(account.frac(share.total_ns))
    title = f"torch.compile takes {duration(share.total_ns)} once ({frac} of the run)"
    if not breaks:
        return title
    return f"{title}, and its graph breaks"


def _advice(
    run: RunResults,
    account: Account,
    share: Share,
    compiling: Compiling,
    breaks: tuple[CompileEvent, ...],
) -> str:
    sentences = []
    if breaks:
        place, reason = breaks[0].place, breaks[0].reason
        lines = "" if len(breaks) == 1 else f" (the first of {len(breaks)} lines)"
        sentences.append(
            f"The graph breaks at line {place.line}{lines}: {reason.rstrip('.')}. {BROKEN}"
        )
    else:
        sentences.append(WHOLE)
    sentences += _versions(run, share, compiling)
    if account.work_ns:
        sentences.append(EARNED.format(times=1 + share.total_ns / account.work_ns))
    built, graphs = compiling.graphs_built, compiling.graphs_built + compiling.graphs_loaded
    if compiling.loaded_frac >= CACHED_FRAC:
        sentences.append(LOADED.format(loaded=compiling.graphs_loaded, graphs=graphs))
    elif built:
        sentences.append(f"Graphs compiled: {built}. {BUILT}")
    return " ".join(sentences)


def _versions(run: RunResults, share: Share, compiling: Compiling) -> Iterator[str]:
    """Say what further versions of functions took in the first compilations, if that was much."""
    repeated = compiling.again.reasons
    reasons = [reason for reason in run.compiled.reasons if reason not in repeated]
    took_ns = sum(reason.took_ns for reason in reasons)
    if took_ns and took_ns >= VERSIONS_FRAC * share.total_ns:
        count = sum(reason.count for reason in reasons)
        yield (
            f"Further versions of functions ({count}) took {duration(took_ns)} of it, mainly for "
            f"this reason: {reasons[0].reason}."
        )
