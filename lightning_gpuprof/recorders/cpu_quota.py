"""How much of the machine's cores a container may use, and how often it was throttled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CpuQuota

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota(root: Path = ROOT, own: Path = OWN) -> CpuQuota | None:
    """Return the counters of this process's control group; None without a quota.

    Those of the outermost group where its own folder is hidden, as in a container.
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
