"""A folder of traces alone, such as `tensorboard_trace_handler` writes: read as a run of cycles."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lightning_gpuprof.records.files import LOCAL, FileSystem, is_trace, written_unix_ns
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, ProfilerCycle, RunStart
from lightning_gpuprof.views.documents.report_payload import report_payload
from lightning_gpuprof.views.documents.trace_findings import judge_trace

_ALONE = (
    "Traces alone, without records of GpuProfCallback: step times, operators and findings are of "
    "the profiled steps; phases and memory are not known."
)
_WAITING = "No trace is analysed yet: figures follow here, or Operators says why there are none."


def trace_records(folder: str, fs: FileSystem = LOCAL) -> dict[int, RankRecords]:
    """Return one session of one rank whose cycles are the folder's traces, the oldest first."""
    written = {name: written_unix_ns(folder, [name], fs) for name in fs.listdir(folder)}
    names = sorted(filter(is_trace, written), key=lambda name: (written[name], name))
    version, began = SCHEMA_VERSION, max((written[name] for name in names), default=0)
    start = RunStart(version, session=0, stage="fit", started_unix_ns=began, rank=0)
    cycles = [
        ProfilerCycle(cycle=number, first_step=0, last_step=0, trace_file=name)
        for number, name in enumerate(names)
    ]
    return {0: RankRecords(0, (Session(start, tuple(cycles), {}),), ())}


def trace_report(
    folder: str,
    analysis: Callable[[str], Mapping[str, Any] | None],
    cycles: Sequence[tuple[int, ProfilerCycle]],
) -> dict[str, Any]:
    """Return the `report --json` document of the last trace that was analysed."""
    known = (analysis(cycle.trace_file) for _, cycle in reversed(cycles))
    document = next((one for one in known if one is not None), None)
    notices = [_ALONE if document else _WAITING]
    run, judged = judge_trace(document or {"device": None, "gpu": None, "steps": [], "file": ""})
    # The analysis says of which traces nothing can be said, and words it for those without steps.
    findings = document["findings"] if document else []
    found, abstained = (judged.found, judged.abstained) if findings else ((), ())
    payload = report_payload(folder, run, found, abstained, (), notices)
    return {**payload, "findings": findings}
