"""How a run waited for the machine's cores: by its control group's quota, and for a free one."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CoreWait, CpuQuota

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
TASKS = Path("/proc/self/task")


class QuotaUse(Recorder):
    """Records how often the control group's CPU quota made the run wait.

    Costs: some 100 us, twice.
    Touches: nothing; it reads two files of /sys/fs/cgroup.
    When: the beginning and the end of training; nothing is recorded without a quota.

    Args:
        read: Returns the counters; tests pass a fake.
    """

    def __init__(self, *, read: Callable[[], CpuQuota | None] | None = None) -> None:
        self._read = read or cpu_quota
        self._before: CpuQuota | None = None

    @override
    def train_starts(self, trainer: Any, host: Callback) -> None:
        self._before = self._read()

    @override
    def train_ends(self, trainer: Any) -> None:
        now = None if self._before is None else self._read()
        if now is not None and self._before is not None and self._output is not None:
            self._output.write(now.since(self._before))


class CoreWaits(Recorder):
    """Records how long the training thread was ready and waited for a core.

    Costs: some 20 us, twice.
    Touches: nothing; it reads a file of /proc.
    When: the beginning and the end of training.

    Args:
        read: Returns wall time and the time spent waiting so far; tests pass a fake.
    """

    def __init__(self, *, read: Callable[[], CoreWait | None] | None = None) -> None:
        self._read = read or core_wait
        self._before: CoreWait | None = None

    @override
    def train_starts(self, trainer: Any, host: Callback) -> None:
        self._before = self._read()

    @override
    def train_ends(self, trainer: Any) -> None:
        before, now = self._before, self._read()
        if before is not None and now is not None and self._output is not None:
            waited_ns = now.queued_ns - before.queued_ns
            self._output.write(CoreWait(now.wall_ns - before.wall_ns, waited_ns))


def core_wait(tasks: Path = TASKS) -> CoreWait | None:
    """Return the kernel's account of this thread so far; None where it keeps none."""
    try:
        text = (tasks / str(threading.get_native_id()) / "schedstat").read_text(encoding="ascii")
        return CoreWait(time.perf_counter_ns(), int(text.split()[1]))
    except (OSError, ValueError, IndexError):
        return None


def cpu_quota(root: Path = ROOT, own: Path = OWN) -> CpuQuota | None:
    """Return the counters of this process's control group; None without a quota.

    Where its own folder is hidden, as in a container, they are those of the outermost group.
    """
    try:
        named = own.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in named:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        for folder in (top / path.lstrip("/"), top):
            found = _read(folder)
            if found is not None:
                return found
    return None


def _read(folder: Path) -> CpuQuota | None:
    try:
        counts = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        if quota in ("max", "-1"):
            return None
        return CpuQuota(
            cores=int(quota) / int(period),
            periods=int(counts["nr_periods"]),
            throttled=int(counts["nr_throttled"]),
        )
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None
