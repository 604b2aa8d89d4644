"""Who uses the machine's cores, and how long this process's threads wait for one (Linux)."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import CoreUse, Program

PROC = Path("/proc")
MOST_PROGRAMS = 3
KERNEL = 2
"""The parent of the kernel's own threads."""


class Process(NamedTuple):
    """One line of /proc/PID/stat."""

    name: str
    parent: int
    begun: int
    """When, in the kernel's ticks: a number may be another process's later."""
    cpu_ns: int
    waited_for_ns: int
    """Of children that have ended and were waited for."""


@dataclass(frozen=True)
class CoreTimes:
    """Times since the machine was started."""

    at_ns: int
    cores: int
    busy_ns: int
    stolen_ns: int
    processes: dict[int, Process]
    queued_ns: dict[int, int]
    """How long each thread of this process was ready, and waited for a core."""


class CoresUsed(Recorder):
    """Records what this run and others computed on the machine's cores.

    Costs: 1 to 10 ms, twice, by how many processes the machine has.
    Touches: nothing; it reads /proc.
    When: the beginning and the end of training.

    Args:
        read: Returns the times so far; tests pass a fake.
    """

    def __init__(self, *, read: Callable[[], CoreTimes | None] | None = None) -> None:
        self._read = read or core_times
        self._before: CoreTimes | None = None

    @override
    def train_starts(self, trainer: Any, host: Callback) -> None:
        self._before = self._read()

    @override
    def train_ends(self, trainer: Any) -> None:
        before, self._before = self._before, None
        after = None if before is None else self._read()
        if before is None or after is None or self._output is None:
            return
        # The launcher of the ranks is rank 0, or has them all as its children.
        root = os.getpid() if trainer.world_size == 1 else os.getppid()
        thread = threading.get_native_id()
        self._output.write(used_between(before, after, root=root, thread=thread))


def core_times(proc: Path = PROC) -> CoreTimes | None:
    """Read the times so far; None where the system shows none.

    Reads a line for each visible process and each thread of this one, some 20 us each.
    """
    try:
        cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        tick_ns = round(1e9 / os.sysconf("SC_CLK_TCK"))
        queued_ns = _queued(proc / "self" / "task")
        lines = [line.split() for line in (proc / "stat").read_text().splitlines()]
        counted = [[int(one) for one in line[1:9]] for line in lines if line and line[0] in cores]
        if threading.get_native_id() not in queued_ns or len(counted) != len(cores):
            return None
        return CoreTimes(
            at_ns=time.perf_counter_ns(),
            cores=len(cores),
            # user, nice, system, idle, iowait, irq, softirq, steal
            busy_ns=tick_ns * sum(sum(one[:3]) + sum(one[5:7]) for one in counted),
            stolen_ns=tick_ns * sum(one[7] for one in counted),
            processes=_processes(proc, tick_ns),
            queued_ns=queued_ns,
        )
    except (AttributeError, OSError, ValueError, IndexError):  # another system, or its doors shut
        return None


def _queued(tasks: Path) -> dict[int, int]:
    found = {}
    for name in os.listdir(tasks):
        try:
            with open(f"{tasks}/{name}/schedstat", encoding="ascii") as file:
                _, queued_ns, _ = file.read().split()
        except OSError:  # it has ended since
            continue
        found[int(name)] = int(queued_ns)
    return found


def _processes(proc: Path, tick_ns: int) -> dict[int, Process]:
    found = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", encoding="utf-8", errors="replace") as file:
                begin, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        user, system, child_user, child_system = map(int, fields[11:15])
        found[int(name)] = Process(
            name=begin.partition("(")[2],
            parent=int(fields[1]),
            begun=int(fields[19]),
            cpu_ns=tick_ns * (user + system),
            waited_for_ns=tick_ns * (child_user + child_system),
        )
    return found


def used_between(before: CoreTimes, after: CoreTimes, *, root: int, thread: int) -> CoreUse:
    """Return the use of the cores between two readings.

    Args:
        before: The first.
        after: The second.
        root: The run's first process: this one, or the launcher of all its ranks.
        thread: The native id of the training thread.
    """
    pid = os.getpid()
    own_ns = _cpu(after, pid) - _cpu(before, pid)
    family = _tree(after.processes, root) | {pid}
    family_ns = _all(after, family) - _all(before, _tree(before.processes, root) | {pid})
    waits = {one: ns - before.queued_ns.get(one, 0) for one, ns in after.queued_ns.items()}
    return CoreUse(
        cores=after.cores,
        wall_ns=after.at_ns - before.at_ns,
        busy_ns=after.busy_ns - before.busy_ns,
        stolen_ns=after.stolen_ns - before.stolen_ns,
        own_ns=own_ns,
        family_ns=max(0, family_ns - own_ns),
        queued_ns=waits.get(thread, 0),
        others_queued_ns=max((ns for one, ns in waits.items() if one != thread), default=0),
        programs=_programs(before, after, family),
    )


def _cpu(times: CoreTimes, pid: int) -> int:
    process = times.processes.get(pid)
    return 0 if process is None else process.cpu_ns


def _all(times: CoreTimes, pids: set[int]) -> int:
    found = (times.processes[pid] for pid in pids if pid in times.processes)
    return sum(one.cpu_ns + one.waited_for_ns for one in found)


def _tree(processes: dict[int, Process], root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    found, open_ends = {root}, [root]
    while open_ends:
        for pid in children.get(open_ends.pop(), ()):
            if pid not in found:
                found.add(pid)
                open_ends.append(pid)
    return found


def _programs(before: CoreTimes, after: CoreTimes, family: set[int]) -> tuple[Program, ...]:
    computed: Counter[str] = Counter()
    for pid, process in after.processes.items():
        if pid not in family and process.parent != KERNEL:
            earlier = before.processes.get(pid)
            same = earlier is not None and earlier.begun == process.begun
            computed[process.name] += process.cpu_ns - (earlier.cpu_ns if earlier and same else 0)
    return tuple(Program(name, ns) for name, ns in computed.most_common(MOST_PROGRAMS) if ns > 0)
