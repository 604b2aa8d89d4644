"""Records what the host counts, again and again, so that spans of a run can be compared."""

import gc
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.cores import (
    PRESSURE,
    TASKS,
    core_wait,
    cpu_quota,
    pressure_ns,
)
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.recorders.sampling.storage_waits import reads_so_far
from lightning_gpuprof.records.facts import HostCounters
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.timed_calls import TimedCalls

FRAC = 50
"""The interval between readings is the run so far divided by this, within the limits below: a
run of an hour has some 200 of them, a day 1,500."""
LEAST_NS, MOST_NS = 2_000_000_000, 60_000_000_000
CORES = Path("/sys/devices/system/cpu")
PROCESS_IO, CPU_PRESSURE = Path("/proc/self/io"), PRESSURE.with_name("cpu")

_CORE = 36
"""The position of the core's number in the line of a thread's `stat`, behind its name."""


class HostCountersRecorder(Recorder):
    """Records CPU time, waits for cores and storage, page faults, reads and Python's objects.

    Live tensors are not among them: Python keeps no count of the objects of a class, and looking
    at all objects would take longer than a step.

    Costs: 0.4 ms, every two seconds at first and once a minute later.
    Touches: nothing. It reads files of /proc and /sys/fs/cgroup.
    When: the beginning of training, and the ends of batches.

    Args:
        read: Returns the counters at a step and a time; tests pass a fake.
    """

    def __init__(self, read: Callable[[int, int], HostCounters] | None = None) -> None:
        self._read = read or host_counters
        self._calls: TimedCalls | None = None

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        if self._context is not None and self._timing is not None:
            self._write()
            now, interval_ns = self._context.now, self._interval_ns
            self._calls = TimedCalls(hooks.periodic, self._write, now, interval_ns)

    def _interval_ns(self) -> int:
        assert self._context is not None
        return min(MOST_NS, max(LEAST_NS, self._context.clock() // FRAC))

    @guarded
    def _write(self) -> None:
        if self._context is not None:
            self._context.write(self._read(self._context.step, self._context.clock()))

    @override
    def on_train_end(self, trainer: Any) -> None:
        self._write()
        self.release()

    @override
    def release(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.stop()


def host_counters(
    step: int, wall_ns: int, *, process_io: Path = PROCESS_IO, cpu_pressure: Path = CPU_PRESSURE
) -> HostCounters:
    """Read the counters of the current thread, its process and the machine."""
    wait, quota = core_wait(), cpu_quota()
    reads = reads_so_far(threading.get_native_id())
    minor_faults = major_faults = system_ns = None
    if sys.platform == "linux":
        import resource  # not on Windows

        used = resource.getrusage(resource.RUSAGE_THREAD)
        minor_faults, major_faults = used.ru_minflt, used.ru_majflt
        system_ns = round(1e9 * used.ru_stime)
    return HostCounters(
        step=step,
        wall_ns=wall_ns,
        cpu_ns=time.process_time_ns(),
        queued_ns=None if wait is None else wait.queued_ns,
        system_ns=system_ns,
        minor_faults=minor_faults,
        major_faults=major_faults,
        read_bytes=None if reads is None else reads.size_bytes,
        read_calls=None if reads is None else reads.calls,
        storage_read_bytes=_storage_read_bytes(process_io),
        storage_stalled_ns=pressure_ns(PRESSURE),
        cpu_stalled_ns=pressure_ns(cpu_pressure),
        throttled=None if quota is None else quota.throttled,
        core_mhz=core_mhz(),
        collections=tuple(generation["collections"] for generation in gc.get_stats()),
        python_blocks=sys.getallocatedblocks(),
    )


def core_mhz(tasks: Path = TASKS, cores: Path = CORES) -> int | None:
    """Return the clock of the core that runs this thread; None if the kernel does not say."""
    if not (cores / "cpufreq").is_dir():  # as in most virtual machines
        return None
    try:
        stat = (tasks / str(threading.get_native_id()) / "stat").read_text(errors="replace")
        core = int(stat.rpartition(")")[2].split()[_CORE])
        text = (cores / f"cpu{core}" / "cpufreq" / "scaling_cur_freq").read_text(encoding="ascii")
        return int(text) // 1_000
    except (OSError, ValueError, IndexError):
        return None


def _storage_read_bytes(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii")
        return int(text.partition("\nread_bytes:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        return None
