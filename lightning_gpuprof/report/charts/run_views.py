"""The list of runs, and the header of a run, its report and its steps, for the tab."""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from lightning_gpuprof.analysis.run.level_of_detail import bucket_steps
from lightning_gpuprof.analysis.run.sessions import session_views
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.records import files
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.records.glance import Glance, glance, process_lives
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import (
    SCHEMA_VERSION,
    Device,
    Note,
    ProbeDisabled,
    RunEnd,
    Scalars,
)
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.step_marks import StepMarks, step_marks
from lightning_gpuprof.report.document import Document
from lightning_gpuprof.report.notices import first_few


class SessionLine(Struct, frozen=True):
    """A fit, validate, test or predict call of a rank."""

    session: int
    stage: str
    started_unix_ns: int
    steps: int
    status: str


class RankSessions(Struct, frozen=True):
    """The sessions of a rank, in the order they ran."""

    rank: int
    sessions: tuple[SessionLine, ...]


class LastLoss(Struct, frozen=True):
    """The newest deferred loss."""

    name: str
    step: int
    value: float


class SwitchedOff(Struct, frozen=True):
    """A recorder that failed and was switched off, while training went on."""

    probe: str
    step: int
    error: str


class NoteLine(Struct, frozen=True):
    """A message about the run, such as why there is no trace."""

    name: str
    step: int
    message: str
    value: Any


class EndLine(Struct, frozen=True):
    """How a session ended."""

    status: str
    steps: int
    wall_ns: int
    error: str | None


class DeviceLine(Struct, frozen=True):
    """The device that a rank trains on."""

    type: str
    name: str | None
    count: int | None
    total_bytes: int | None


class RunHeader(Struct, frozen=True):
    """A run's ranks and sessions, and the facts of the session that was asked for."""

    name: str
    ranks: tuple[RankSessions, ...]
    warnings: tuple[str, ...]
    """What could not be read of the records, in sentences."""
    rank: int
    session: int
    stage: str
    started_unix_ns: int
    world_size: int
    device: DeviceLine | None
    batch_size: int | None
    steps: int
    last_step: int | None
    """The number of the last recorded step."""
    end: EndLine | None
    loss: LastLoss | None
    notes: tuple[NoteLine, ...]
    disabled: tuple[SwitchedOff, ...]


def run_view(run: LoadedRun, query: Query) -> RunHeader:
    """Return the run's header: every rank's sessions, and the facts of the session asked for."""
    session = run.session(query)
    start, numbers = session.start, session.columns.get("step")
    return RunHeader(
        name=run.name,
        ranks=tuple(_rank_sessions(rank, records) for rank, records in run.ranks.items()),
        warnings=tuple(
            first_few([text for records in run.ranks.values() for text in records.warnings])
        ),
        rank=start.rank,
        session=start.session,
        stage=start.stage,
        started_unix_ns=start.started_unix_ns,
        world_size=start.world_size,
        device=_device(start.device),
        batch_size=start.loader.batch_size if start.loader else None,
        steps=session.steps,
        last_step=int(numbers[-1]) if numbers is not None and len(numbers) else None,
        end=_end(session.end),
        loss=_last_loss(session),
        notes=tuple(
            NoteLine(note.name, note.step, note.message, note.value) for note in session.all(Note)
        ),
        disabled=tuple(
            SwitchedOff(failure.probe, failure.step, failure.error)
            for failure in session.all(ProbeDisabled)
        ),
    )


def _rank_sessions(rank: int, records: RankRecords) -> RankSessions:
    lines = (SessionLine(**asdict(view)) for view in session_views(records))
    return RankSessions(rank, tuple(lines))


def _device(device: Device | None) -> DeviceLine | None:
    if device is None:
        return None
    return DeviceLine(device.type, device.name, device.count, device.total_bytes)


def _end(end: RunEnd | None) -> EndLine | None:
    if end is None:
        return None
    return EndLine(end.status, end.steps, end.wall_ns, end.error)


def _last_loss(session: Session) -> LastLoss | None:
    """Return the newest deferred loss with its step number; None if no loss was recorded."""
    for record in reversed(session.all(Scalars)):
        name = next((name for name in ("loss", "train_loss") if name in record.values), None)
        values = reversed(record.values.get(name, [])) if name else ()
        for step, value in zip(reversed(record.steps), values, strict=False):
            if name and value is not None:
                return LastLoss(name, step, value)
    return None


def report_view(run: LoadedRun, query: Query) -> Document:
    """Return the document that `lightning-gpuprof report --json` prints."""
    return run.document(query)


DEFAULT_BUCKETS = 480
MAX_BUCKETS = 1000
"""A thousand buckets of thirteen phases keep a reply below 200 kB."""


class Steps(Struct, frozen=True):
    """A range of steps in buckets, each list with an entry per bucket."""

    steps: int
    """How many steps the session recorded."""
    first: list[int]
    """Number of the bucket's first step."""
    last: list[int]
    count: list[int]
    """Steps in the bucket."""
    phase_ns: dict[str, list[float]]
    """Mean over the bucket's steps, by phase: the phases add up to the mean step."""
    max_ns: list[int]
    slowest: list[int]
    """Number of the slowest step in the bucket."""
    flags: list[int]
    """All flags that occur in the bucket."""
    marks: StepMarks = StepMarks()


def steps_view(run: LoadedRun, query: Query) -> Steps:
    """Return a range of steps by bucket; steps are addressed by their own numbers.

    If only some steps are timed by phase, a step's number differs from its index in the records.
    """
    session = run.session(query)
    last = query.integer("last", default=2**53, low=0, high=2**53)
    first = query.integer("first", default=0, low=0, high=2**53)
    numbers = session.step_numbers
    most = query.integer("buckets", default=DEFAULT_BUCKETS, low=1, high=MAX_BUCKETS)
    buckets = bucket_steps(
        session.columns.get("dur_ns", np.zeros(0, dtype=np.int64)),
        {phase.value: values for phase, values in session.phases_ns(Phase).items()},
        step_flags(session),
        first=int(np.searchsorted(numbers, first)),
        last=int(np.searchsorted(numbers, last)),
        buckets=most,
    )
    return Steps(
        steps=session.steps,
        first=numbers[buckets.first].tolist(),
        last=numbers[buckets.first + buckets.count - 1].tolist(),
        count=buckets.count.tolist(),
        phase_ns={name: values.tolist() for name, values in buckets.mean_ns.items()},
        max_ns=buckets.max_ns.tolist(),
        slowest=numbers[buckets.slowest].tolist(),
        flags=buckets.flags.tolist(),
        marks=step_marks(session, int(numbers[-1]) if len(numbers) else 0),
    )


RunState = Literal[
    "live",
    "finished",
    "exception",
    "interrupted",
    "stopped",
    "newer-schema",
    "trace",
    "unreadable",
]
"""`stopped`: no closing record and no process, so it was killed. `trace`: a folder of traces."""
_ENDED: Mapping[str, RunState] = {
    "finished": "finished",
    "exception": "exception",
    "interrupted": "interrupted",
}

LIVE_S = 120
"""If the training process cannot be looked up, a run whose last step is younger than this counts
as live: windows close every few seconds, validation and checkpoints may take a minute."""


class ModelLine(Struct, frozen=True):
    """What distinguishes a run's model."""

    class_: str | None = field(default=None, name="class")
    parameters: int | None = None


class RunLine(Struct, frozen=True):
    """An entry of the list of runs."""

    name: str
    path: str
    state: RunState
    ranks: tuple[int, ...] = ()
    error: str | None = None
    """Why the run cannot be read."""
    started_unix_ns: int | None = None
    """When its last session began."""
    steps: int | None = None
    schema_version: int | None = None
    size_bytes: int | None = None
    analysed: int | None = None
    """Traces that have an analysis."""
    analysed_unix_ns: int | None = None
    """When the last of these analyses was made; None on remote disks."""
    stage: str | None = None
    world_size: int | None = None
    strategy: str | None = None
    device: str | None = None
    host: str | None = None
    model: ModelLine | None = None


class Listing(Struct, frozen=True):
    """All runs; the one whose last session began last comes first."""

    runs: tuple[RunLine, ...]
    roots: tuple[str, ...]
    """The folders that TensorBoard was started on."""
    missing: tuple[str, ...]
    """Those of these folders that do not exist."""
    schema_version: int
    """The newest schema of records that this version reads."""
    perfetto: bool = False
    """Whether the server carries the Perfetto UI."""


def runs_view(
    runs: Mapping[str, str], fs_of: Callable[[str], FileSystem] = lambda _: LOCAL
) -> tuple[RunLine, ...]:
    """Return an entry for every run; the one whose last session began last comes first."""
    lines = [_run_line(name, path, fs_of(path)) for name, path in runs.items()]
    return tuple(
        sorted(lines, key=lambda line: (-(line.started_unix_ns or 0), natural_key(line.name)))
    )


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a key that orders names as people do.

    >>> sorted(["version_10", "version_2"], key=natural_key)
    ['version_2', 'version_10']
    """
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def _run_line(name: str, path: str, fs: FileSystem) -> RunLine:
    """Describe a run by its first readable rank, or say why the first rank cannot be read."""
    line = RunLine(name, path, "unreadable", error="its record files are gone.")
    try:
        if files.run_folder(path, fs) == path:
            return _traces_alone(name, path, fs)
        ranks = files.record_files(path, fs)
    except OSError as error:
        return replace(line, error=f"{path}: {error.strerror or error}.")
    unreadable = []
    for file in ranks.values():
        try:
            described = _described(replace(line, ranks=tuple(ranks)), file, fs)
        except OSError as error:
            described = replace(
                line, ranks=tuple(ranks), error=f"{file}: {error.strerror or error}."
            )
        if described.state != "unreadable":
            return described
        unreadable.append(described)
    return unreadable[0] if unreadable else line


def _traces_alone(name: str, folder: str, fs: FileSystem) -> RunLine:
    names = fs.listdir(folder)
    traces = [n for n in names if files.is_trace(n) and fs.exists(os.path.join(folder, n))]
    line = RunLine(
        name,
        folder,
        "trace",
        ranks=(0,),
        started_unix_ns=files.written_unix_ns(folder, traces, fs) or None,
        schema_version=SCHEMA_VERSION,
        size_bytes=sum(fs.size(os.path.join(folder, name)) for name in traces),
    )
    return _with_analyses(line, folder, names, fs)


def _with_analyses(line: RunLine, folder: str, names: Sequence[str], fs: FileSystem) -> RunLine:
    analyses = [name for name in names if name.endswith(files.ANALYSIS_SUFFIX)]
    beside = [*analyses, files.JOB_NAME]
    newest = files.written_unix_ns(folder, beside, fs) or None
    return replace(line, analysed=len(analyses), analysed_unix_ns=newest)


def _described(line: RunLine, file: str, fs: FileSystem) -> RunLine:
    glimpse, folder = glance(file, fs), os.path.dirname(file)
    version = glimpse.start.schema_version if glimpse.start is not None else None
    line = replace(
        line, schema_version=version, size_bytes=glimpse.size_bytes, error=glimpse.why or None
    )
    line = _with_analyses(line, folder, fs.listdir(folder), fs)
    if version is not None and version > SCHEMA_VERSION:
        return replace(line, state="newer-schema")
    if glimpse.start is None:
        return line
    device, last = glimpse.start.device, glimpse.last_start or glimpse.start
    return replace(
        line,
        state=run_state(glimpse),
        stage=glimpse.start.stage,
        started_unix_ns=last.started_unix_ns,
        model=ModelLine(last.model.get("class"), last.model.get("parameters")),
        steps=glimpse.steps,
        world_size=glimpse.start.world_size,
        strategy=last.trainer.get("strategy"),
        device=(device.name or device.type) if device else None,
        host=glimpse.start.host,
    )


def run_state(glimpse: Glance) -> RunState:
    """Return the state in the closing record, or `live` or `stopped` if there is no such record."""
    if glimpse.end is not None:
        return _ENDED.get(glimpse.end.status, "stopped")
    start = glimpse.start
    if start is not None and (alive := process_lives(start)) is not None:
        return "live" if alive else "stopped"
    recent = (
        glimpse.last_unix_ns is not None and time.time_ns() - glimpse.last_unix_ns < LIVE_S * 10**9
    )
    return "live" if recent else "stopped"
