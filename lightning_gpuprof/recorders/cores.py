"""Records how long a run waited for a core, its CPU quota, storage, and for new memory."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CoreWait, CpuQuota, IoPressure, PageFaults
from lightning_gpuprof.records.lines import CpuTime
from lightning_gpuprof.runtime.hooks import HookDispatcher

CGROUP_ROOT, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
TASKS, PRESSURE = Path("/proc/self/task"), Path("/proc/pressure/io")
_Counters = CoreWait | CpuQuota | IoPressure | PageFaults


class CoreWaits(Recorder):
    """Records how long training waited for a core, for its CPU quota, storage and new memory.

    The waits for storage are those of the whole machine, from the kernel's pressure stall
    information (PSI).

    Costs: about 100 us, twice.
    Touches: nothing. It reads files of /proc and /sys/fs/cgroup.
    When: the beginning and the end of training.
    """

    def __init__(self, *readers: Callable[[], _Counters | None]) -> None:
        self._readers = readers or (core_wait, cpu_quota, io_pressure, page_faults)
        self._before: list[_Counters | None] = []

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self._before = [read() for read in self._readers]

    @override
    def on_train_end(self, trainer: Any) -> None:
        for read, before in zip(self._readers, self._before, strict=False):
            if self._context is not None and before is not None and (now := read()) is not None:
                self._context.write(now.since(before))


def core_wait(tasks: Path = TASKS) -> CoreWait | None:
    """Return the kernel's counters of this thread's waits, or None if it has no such counters."""
    try:
        text = (tasks / str(threading.get_native_id()) / "schedstat").read_text(encoding="ascii")
        return CoreWait(time.perf_counter_ns(), int(text.split()[1]))
    except (OSError, ValueError, IndexError):
        return None


def cpu_time(tasks: Path = TASKS) -> CpuTime | None:
    """Return what this process has computed, and how long its main thread has waited for a core.

    None if the kernel does not say.
    """
    try:
        # The native id of the main thread is the id of the process.
        text = (tasks / str(os.getpid()) / "schedstat").read_text(encoding="ascii")
        queued_ns = int(text.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return CpuTime(time.perf_counter_ns(), time.process_time_ns(), queued_ns)


def io_pressure(path: Path = PRESSURE) -> IoPressure | None:
    """Return how long some task of the machine has waited for storage, or None if unknown."""
    stalled_ns = pressure_ns(path)
    return None if stalled_ns is None else IoPressure(time.perf_counter_ns(), stalled_ns)


def pressure_ns(path: Path) -> int | None:
    """Return how long some task of the machine has waited, by a file of PSI; None if unknown."""
    try:
        total = path.read_text(encoding="ascii").split("total=")[1].split()[0]
        return 1_000 * int(total)
    except (OSError, ValueError, IndexError):
        return None


def page_faults() -> PageFaults | None:
    """Return how often this thread used new memory, and its time in the kernel; None but on Linux.

    Page faults are nearly all that training does in the kernel, except for reading files.
    """
    if sys.platform != "linux":
        return None
    import resource  # not on Windows

    used = resource.getrusage(resource.RUSAGE_THREAD)
    return PageFaults(used.ru_minflt, round(1e9 * used.ru_stime))


def cpu_quota(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> CpuQuota | None:
    """Return the counters of this process's control group (version 2); None without a quota.

    If the folder of the group is hidden, as in a container, the outermost group counts.
    """
    try:
        lines = own.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    if path is None:  # control groups of version 1
        return None
    return _read_quota(root / path.lstrip("/")) or _read_quota(root)


def _read_quota(folder: Path) -> CpuQuota | None:
    try:
        counts = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        quota, period = (folder / "cpu.max").read_text().split()
        return CpuQuota(
            cores=int(quota) / int(period),
            periods=int(counts["nr_periods"]),
            throttled=int(counts["nr_throttled"]),
        )
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None
