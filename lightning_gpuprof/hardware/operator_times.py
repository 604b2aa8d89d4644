"""What calls of operators usually take on this machine: measured once, in a process of its own.

The times are in the user's cache folder, one file for each CPU, number of threads and version of
torch.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from lightning_gpuprof.hardware.processor import processor_name
from lightning_gpuprof.records.files import open_file, written_whole
from lightning_gpuprof.records.operator_times import (
    OperatorInputs,
    OperatorTimes,
    TimingReply,
    TimingRequest,
)

CHILD = "lightning_gpuprof.adapters.operator_times"
TIMEOUT_S = 30
_REUSE = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""Tells glibc to keep freed memory. Otherwise some processes get new pages for each result, with
which a root of 2 MB takes five times as long."""
MOST_WAITED_FRAC = 0.1
"""Times are stored if the child waited for a core for no more than this share of the time."""
MOST_BYTES = 8 << 20
MOST_KEPT = 500
"""The number of calls whose times a file holds; of more, it forgets those that came first."""
Times = Mapping[str, OperatorTimes]
"""Times by `OperatorInputs.key`."""
_Stored = dict[str, OperatorTimes | None]


@dataclass(frozen=True)
class Machine:
    """What the time of a call depends on.

    Args:
        processor: The name of the CPU.
        threads: The threads with which torch computes.
        torch: The version of torch.
    """

    processor: str
    threads: int
    torch: str

    @property
    def is_this(self) -> bool:
        """Whether times for it can be measured here."""
        try:
            installed = version("torch")
        except PackageNotFoundError:
            return False
        return (processor_name(), installed) == (self.processor, self.torch)

    @property
    def cache_file(self) -> Path:
        """The file of its times."""
        text = msgspec.json.encode((self.processor, self.threads, self.torch))
        return cache_folder() / f"operators-{hashlib.sha256(text).hexdigest()[:16]}.json"


def cache_folder() -> Path:
    """Return this package's folder among the user's caches, which need not exist."""
    if sys.platform == "win32":
        caches = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    elif sys.platform == "darwin":
        caches = os.path.expanduser("~/Library/Caches")
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "lightning_gpuprof"


def operator_times(
    machine: Machine, calls: Iterable[OperatorInputs], *, measure: bool = False
) -> Times:
    """Return the times of those calls for which they are known.

    Args:
        machine: Where the calls were made. If it is not this one, only what was stored is known.
        calls: The calls.
        measure: Whether to measure what is not stored. This takes some seconds, in which torch is
            imported, and at most `TIMEOUT_S`.
    """
    wanted = {call.key: call for call in calls}
    if not wanted:
        return {}
    stored = _read(machine.cache_file)
    missing = {key: call for key, call in wanted.items() if key not in stored}
    if missing and measure and machine.is_this:
        new, is_quiet = _measured(machine, missing)
        stored = {**stored, **new}
        if new and is_quiet:
            _write(machine.cache_file, stored)
    return {key: times for key in wanted if (times := stored.get(key)) is not None}


def _measured(machine: Machine, calls: Mapping[str, OperatorInputs]) -> tuple[_Stored, bool]:
    """Time calls in a child process. Return the times, and whether other programs left it alone.

    There are no times if the child fails, or if its threads had to wait for each other's cores: any
    call may then take a hundred times as long.
    """
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    # No GPU is asked for, and nothing in the working folder is imported in the place of torch.
    environment = {**os.environ, **_REUSE, "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
    try:
        child = subprocess.run(
            [sys.executable, "-m", CHILD],
            input=msgspec.json.encode(TimingRequest(machine.threads, tuple(calls.values()))),
            capture_output=True,
            env=environment,
            cwd=root,
            timeout=TIMEOUT_S,
            check=True,
        )
        reply = msgspec.json.decode(child.stdout, type=TimingReply)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError):
        return {}, False
    is_quiet = reply.waited_frac <= MOST_WAITED_FRAC
    if reply.torch != machine.torch or len(reply.times) != len(calls):
        return {}, False
    if not is_quiet and machine.threads > 1:
        return {}, False
    return dict(zip(calls, reply.times, strict=True)), is_quiet


def _read(path: Path) -> _Stored:
    with suppress(OSError, msgspec.MsgspecError), open_file(str(path), MOST_BYTES) as file:
        return msgspec.json.decode(file.read(), type=_Stored)
    return {}


def _write(path: Path, stored: _Stored) -> None:
    """Store times; a folder that cannot be written to makes the next reader measure them again."""
    latest = dict(list(stored.items())[-MOST_KEPT:])
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(str(path)) as part:
            Path(part).write_bytes(msgspec.json.encode(latest))
