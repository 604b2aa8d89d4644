"""Reads how much of the machine's cores a container may use, and how often it was made to wait."""

from pathlib import Path

from lightning_gpuprof.records.cpu_quota import CpuQuota

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota(root: Path = ROOT, own: Path = OWN) -> CpuQuota | None:
    """Return the counters of this process's control group; None without a quota.

    Of the group itself, or where its folder is not to be seen (in a container) of the outermost.
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
