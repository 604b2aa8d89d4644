"""The list of runs for the tab's picker, from the ends of their record files alone."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from lightning_gpuprof.records.files import (
    ANALYSIS_SUFFIX,
    LOCAL,
    FileSystem,
    plugin_dir,
    record_files,
)
from lightning_gpuprof.records.glance import Glance, glance
from lightning_gpuprof.records.schema import SCHEMA_VERSION

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
    files = record_files(path, fs)
    line: dict[str, Any] = {
        "name": name,
        "path": path,
        "ranks": list(files),
        "state": "unreadable",
        "started_unix_ns": None,
        "steps": None,
        "schema_version": None,
    }
    if not files:
        return line
    seen = glance(files[min(files)], fs)
    version = seen.start.schema_version if seen.start is not None else None
    line["schema_version"] = version
    line["size_bytes"] = seen.size_bytes
    analyses = [n for n in fs.listdir(plugin_dir(path)) if n.endswith(ANALYSIS_SUFFIX)]
    line["analysed"] = len(analyses)
    line["analysed_unix_ns"] = _newest(plugin_dir(path), analyses) if fs is LOCAL else None
    if version is not None and version > SCHEMA_VERSION:
        line["state"] = "newer-schema"
    if seen.start is None or line["state"] == "newer-schema":
        return line
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
    return line


def _newest(folder: str, names: Sequence[str]) -> int | None:
    """Return when the newest of some files was written; None where there is none."""
    times = []
    for name in names:
        with suppress(OSError):  # gone since it was listed
            times.append(os.stat(os.path.join(folder, name)).st_mtime_ns)
    return max(times, default=None)


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
    except OSError:
        return False
    return True
