"""Two profiler cycles of one run side by side, from the analyses kept beside their traces."""

import os
from typing import Any, cast

import msgspec

from lightning_gpuprof.analysis.compare.trace_diff import compare_traces
from lightning_gpuprof.analysis.trace.time_split import TimeSplit
from lightning_gpuprof.analysis.trace_analysis import TraceAnalysis
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX
from lightning_gpuprof.views.documents.work_payload import diff_payload
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError

MAX_ROWS = 20
"""The largest changes; the tables of each cycle have all."""


class _Row(msgspec.Struct):
    """The common part of a document's tables."""

    count: int
    total_ns: int
    name: str = ""
    kind: str = ""
    memory: str | None = None
    category: str = ""
    self_ns: int = 0
    device_self_ns: int | None = None


class _Step(msgspec.Struct):
    dur_ns: int


class _Kernels(msgspec.Struct):
    kernels: list[_Row]
    categories: list[_Row]


class _Device(msgspec.Struct):
    split: TimeSplit


class _Document(msgspec.Struct):
    """What a comparison takes of an `analyze --json` document."""

    gpu: TimeSplit | None = None
    kernels: list[_Row] = []
    categories: list[_Row] = []
    operators: list[_Row] = []
    copies: list[_Row] = []
    steps: list[_Step] = []


class _Analysis(msgspec.Struct):
    """A document in the shape of the `TraceAnalysis` it was made from, as far as is compared."""

    devices: list[_Device]
    kernels: _Kernels
    operators: list[_Row]
    copies: list[_Row]
    steps: list[_Step]


def compare_cycles_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return what changed from the cycle named by `base` to the one named by `trace`.

    By default the last analysed cycle of the lowest rank against the first.

    Raises:
        QueryError: The run has no such analysed cycle.
    """
    cycles = [
        {"trace": cycle.trace_file, "rank": rank, "cycle": cycle.cycle}
        for rank, cycle in run.cycles()
        if _has_analysis(run, cycle.trace_file)
    ]
    names = [str(one["trace"]) for one in cycles]
    if len(names) < 2:
        return {"state": "too-few", "cycles": cycles}
    own = [str(one["trace"]) for one in cycles if one["rank"] == cycles[0]["rank"]]
    base = _picked(run, query.text("base", own[0]), names)
    new = _picked(run, query.text("trace", own[-1] if len(own) > 1 else names[-1]), names)
    found = diff_payload(compare_traces(_analysis(run, base), _analysis(run, new)))
    cut = {key: value[:MAX_ROWS] for key, value in found.items() if isinstance(value, list)}
    return {"state": "compared", "cycles": cycles, "base": base, "trace": new, **found, **cut}


def _has_analysis(run: LoadedRun, name: str) -> bool:
    # Record files come from anywhere: a name with a folder in it is none of ours.
    plain = os.path.basename(name) == name
    return plain and run.fs.exists(os.path.join(run.folder, name + ANALYSIS_SUFFIX))


def _picked(run: LoadedRun, name: str, names: list[str]) -> str:
    if name not in names:
        raise QueryError(f"{run.name} has no analysed trace {name[:80]!r}.")
    return name


def _analysis(run: LoadedRun, name: str) -> TraceAnalysis:
    try:
        document = msgspec.convert(run.analysis(name) or {}, _Document)
    except msgspec.ValidationError as error:
        raise QueryError(
            f"The analysis of {name[:80]} cannot be compared ({error}). Make it anew with "
            "`lightning-gpuprof analyze`."
        ) from error
    found = _Analysis(
        devices=[_Device(document.gpu)] if document.gpu else [],
        kernels=_Kernels(document.kernels, document.categories),
        operators=document.operators,
        copies=document.copies,
        steps=document.steps,
    )
    return cast(TraceAnalysis, found)
