"""The list of runs, and the header of a run, its report and its steps, for the tab."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np

from lightning_gpuprof.analysis.run.level_of_detail import bucket_steps
from lightning_gpuprof.analysis.run.sessions import session_views
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.records import files
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.records.glance import Glance, glance
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Note, ProbeDisabled, Scalars
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.views.documents.notices import first_few

_FACTS = tuple(
    "rank session stage started_unix_ns phases timer world_size device loader model trainer "
    "torch_settings versions".split()
)


def run_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the run's header: every rank's sessions, and the asked session's facts."""
    session = run.session(query)
    start = session.start
    numbers = session.columns.get("step")
    return {
        "name": run.name,
        "ranks": [
            {"rank": rank, "sessions": [asdict(view) for view in session_views(records)]}
            for rank, records in run.ranks.items()
        ],
        "warnings": first_few(
            [text for records in run.ranks.values() for text in records.warnings]
        ),
        "steps": session.steps,
        "last_step": int(numbers[-1]) if numbers is not None and len(numbers) else None,
        **{key: msgspec.to_builtins(getattr(start, key)) for key in _FACTS},
        "end": msgspec.to_builtins(session.end),
        "loss": _last_loss(session),
        "notes": [msgspec.to_builtins(note) for note in session.all(Note)],
        "disabled": [
            {key: getattr(record, key) for key in ("probe", "step", "error")}
            for record in session.all(ProbeDisabled)
        ],
    }


def _last_loss(session: Session) -> dict[str, Any] | None:
    """Return the newest deferred loss with its step number, None where none was recorded."""
    for record in reversed(session.all(Scalars)):
        name = next((name for name in ("loss", "train_loss") if name in record.values), None)
        for step, value in zip(
            reversed(record.steps), reversed(record.values.get(name or "", [])), strict=False
        ):
            if value is not None:
                return {"name": name, "step": step, "value": value}
    return None


MOST_RANKS = 32
"""Lanes that fit a page; of more ranks than these the tab shows those that others wait for."""


def report_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the document that `lightning-gpuprof report --json` prints, of many ranks some."""
    document = run.report(query)
    return {**document, "ranks": ranks_to_show(document["ranks"])}


def ranks_to_show(ranks: Sequence[dict[str, Any]], most: int = MOST_RANKS) -> list[dict[str, Any]]:
    """Return the lowest rank and those that wait least for others, in their order.

    >>> rows = [{"rank": rank, "waited_ns": 9 - rank} for rank in range(9)]
    >>> [row["rank"] for row in ranks_to_show(rows, 3)]
    [0, 7, 8]
    """
    if len(ranks) <= most:
        return list(ranks)
    first, *others = ranks
    others.sort(key=lambda row: (row["waited_ns"] is None, row["waited_ns"]))
    return [first, *sorted(others[: most - 1], key=lambda row: int(row["rank"]))]


DEFAULT_BUCKETS = 480
MAX_BUCKETS = 1000
"""A thousand buckets of thirteen phases keep a reply below 200 kB."""


def steps_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return a range of steps by bucket; all steps go by their own numbers.

    Where only one step in several is timed by phase, numbers and places in the record differ.
    """
    session = run.session(query)
    last = query.integer("last", default=2**53, low=0, high=2**53)
    first = query.integer("first", default=0, low=0, high=2**53)
    numbers = session.columns.get("step", np.arange(session.steps))
    buckets = query.integer("buckets", default=DEFAULT_BUCKETS, low=1, high=MAX_BUCKETS)
    found = bucket_steps(
        session.columns.get("dur_ns", np.zeros(0, dtype=np.int64)),
        {phase.value: values for phase, values in session.phases_ns(Phase).items()},
        step_flags(session),
        first=int(np.searchsorted(numbers, first)),
        last=int(np.searchsorted(numbers, last)),
        buckets=buckets,
    )
    return {
        "steps": session.steps,
        "first": numbers[found.first].tolist(),
        "last": numbers[found.first + found.count - 1].tolist(),
        "count": found.count.tolist(),
        "phase_ns": {name: values.tolist() for name, values in found.mean_ns.items()},
        "max_ns": found.max_ns.tolist(),
        "slowest": numbers[found.slowest].tolist(),
        "flags": found.flags.tolist(),
    }


LIVE_S = 120
"""Where the training process cannot be looked at, a run whose last step is younger counts as
live: windows close about every few seconds, validation and checkpoints may take a minute."""


def runs_view(
    runs: Mapping[str, str], fs_of: Callable[[str], FileSystem] = lambda _: LOCAL
) -> list[dict[str, Any]]:
    """Return a line for each run, the one whose last session began last first."""
    lines = [_line(name, path, fs_of(path)) for name, path in runs.items()]
    lines.sort(key=lambda line: (-(line["started_unix_ns"] or 0), line["name"]))
    return lines


def _line(name: str, path: str, fs: FileSystem) -> dict[str, Any]:
    """Describe a run by its first rank that can be read; where none can, say why the first one."""
    line: dict[str, Any] = {
        "name": name,
        "path": path,
        "ranks": [],
        "state": "unreadable",
        "error": "its record files are gone.",
        "started_unix_ns": None,
        "steps": None,
        "schema_version": None,
    }
    tried = []
    try:
        if files.run_folder(path, fs) == path:
            return line | _traces_alone(path, fs)
        ranks = files.record_files(path, fs)
    except OSError as error:
        return {**line, "error": f"{path}: {error.strerror or error}."}
    for file in ranks.values():
        tried.append({**line, "ranks": list(ranks)})
        try:
            _describe(tried[-1], file, fs)
        except OSError as error:
            tried[-1]["error"] = f"{file}: {error.strerror or error}."
        if tried[-1]["state"] != "unreadable":
            return tried[-1]
    return tried[0] if tried else line


def _traces_alone(folder: str, fs: FileSystem) -> dict[str, Any]:
    names = fs.listdir(folder)
    traces = [n for n in names if files.is_trace(n) and fs.exists(os.path.join(folder, n))]
    return {
        "ranks": [0],
        "state": "trace",
        "error": None,
        "schema_version": SCHEMA_VERSION,
        "size_bytes": sum(fs.size(os.path.join(folder, name)) for name in traces),
        "started_unix_ns": files.written_unix_ns(folder, traces, fs) or None,
        **_analysed(folder, names, fs),
    }


def _analysed(folder: str, names: Sequence[str], fs: FileSystem) -> dict[str, Any]:
    analyses = [name for name in names if name.endswith(files.ANALYSIS_SUFFIX)]
    newest = files.written_unix_ns(folder, analyses, fs) or None
    return {"analysed": len(analyses), "analysed_unix_ns": newest}


def _describe(line: dict[str, Any], file: str, fs: FileSystem) -> None:
    seen, folder = glance(file, fs), os.path.dirname(file)
    version = seen.start.schema_version if seen.start is not None else None
    line["schema_version"] = version
    line["size_bytes"] = seen.size_bytes
    line["error"] = seen.why or None
    line |= _analysed(folder, fs.listdir(folder), fs)
    if version is not None and version > SCHEMA_VERSION:
        line["state"] = "newer-schema"
    if seen.start is None or line["state"] == "newer-schema":
        return
    device, last = seen.start.device, seen.last_start or seen.start
    line.update(
        state=run_state(seen),
        stage=seen.start.stage,
        started_unix_ns=last.started_unix_ns,
        model={name: last.model.get(name) for name in ("class", "parameters")},
        steps=seen.steps,
        world_size=seen.start.world_size,
        strategy=last.trainer.get("strategy"),
        device=(device.name or device.type) if device else None,
        host=seen.start.host,
    )


def run_state(seen: Glance) -> str:
    """Return finished, exception or interrupted as the run said, else live or stopped."""
    if seen.end is not None:
        return seen.end.status
    start = seen.start
    if start is not None and start.pid and start.host == socket.gethostname():
        return "live" if _is_alive(start.pid) else "stopped"
    recent = seen.last_unix_ns is not None and time.time_ns() - seen.last_unix_ns < LIVE_S * 10**9
    return "live" if recent else "stopped"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
