"""A folder of traces alone, such as `tensorboard_trace_handler` writes: read as a run of cycles."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lightning_gpuprof.records.files import LOCAL, FileSystem, is_trace
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, ProfilerCycle, RunStart
from lightning_gpuprof.views.documents.report_payload import report_payload
from lightning_gpuprof.views.documents.trace_findings import judge_trace

_ALONE = (
    "Traces alone, without records of GpuProfCallback: step times, operators and findings are of "
    "the profiled steps; phases and memory are not known."
)


def trace_records(folder: str, fs: FileSystem = LOCAL) -> dict[int, RankRecords]:
    """Return one session of one rank whose cycles are the folder's traces, by time of change."""
    names = [name for name in fs.listdir(folder) if is_trace(name)]
    times = {name: trace_unix_ns(folder, name, fs) for name in names}
    start = RunStart(
        schema_version=SCHEMA_VERSION,
        session=0,
        stage="fit",
        started_unix_ns=max(times.values(), default=0),
        rank=0,
    )
    cycles = [
        ProfilerCycle(cycle=number, first_step=0, last_step=0, trace_file=name)
        for number, name in enumerate(sorted(names, key=lambda name: (times[name], name)))
    ]
    return {0: RankRecords(0, (Session(start, tuple(cycles), {}),), ())}


def trace_unix_ns(folder: str, name: str, fs: FileSystem = LOCAL) -> int:
    """Return when a trace was written; 0 on remote disks."""
    return os.stat(os.path.join(folder, name)).st_mtime_ns if fs is LOCAL else 0


def trace_report(
    folder: str,
    analysis: Callable[[str], Mapping[str, Any] | None],
    cycles: Sequence[tuple[int, ProfilerCycle]],
) -> dict[str, Any]:
    """Return the `report --json` document of the last trace that was analysed."""
    known = (analysis(cycle.trace_file) for _, cycle in reversed(cycles))
    document = next((one for one in known if one is not None), None)
    notices = [_ALONE if document else "The traces are being analysed: figures follow in a moment."]
    run, judged = judge_trace(document or {"device": None, "gpu": None, "steps": [], "file": ""})
    # The analysis says of which traces nothing can be said, and words it for those without steps.
    findings = document["findings"] if document else []
    payload = report_payload(
        folder,
        run,
        judged.found if findings else (),
        judged.abstained if findings else (),
        (),
        notices,
    )
    return {**payload, "findings": findings}
