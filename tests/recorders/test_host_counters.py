"""Readings of the host's counters: how often, and what they hold."""

import gc
import os
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.host_counters import (
    _CORE,
    LEAST_NS,
    MOST_NS,
    HostCountersRecorder,
    core_mhz,
    host_counters,
)
from lightning_gpuprof.records.facts import HostCounters

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Steps(BoringModel):
    def __init__(self, clock, step_ns):
        super().__init__()
        self.clock, self.step_ns = clock, step_ns

    def training_step(self, batch, batch_idx):
        self.clock.now_ns += self.step_ns
        return super().training_step(batch, batch_idx)


@pytest.fixture
def readings(session_of, clock):
    def read(steps, step_ns):
        timer = PhaseTimer(console=False, clock=clock)
        facts = RunFacts([HostCountersRecorder()])
        model = Steps(clock, step_ns)
        session = session_of(model, timer, facts, limit_train_batches=steps)
        return session.all(HostCounters)

    return read


def test_readings_come_every_two_seconds_at_first(readings):
    found = readings(64, 250_000_000)
    assert found[1].wall_ns - found[0].wall_ns == LEAST_NS
    assert [reading.step for reading in found] == [0, *range(7, 64, 8), 64]


def test_readings_of_a_long_run_come_once_a_minute(readings):
    found = readings(64, 30_000_000_000 * 4)
    assert [reading.step for reading in found] == [0, *range(64), 64]
    found = readings(60, 20_000_000_000)
    late = [reading.wall_ns for reading in found if reading.wall_ns > 50 * LEAST_NS]
    gaps = [after - before for before, after in pairwise(late)]
    assert max(gaps) <= MOST_NS


@linux_only
def test_the_counters_are_those_of_this_thread(tmp_path):
    gc.collect()
    before = host_counters(0, 0)
    kept = [[] for _ in range(10_000)]
    gc.collect()
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    path.read_bytes()
    after = host_counters(3, 5)
    assert (after.step, after.wall_ns) == (3, 5)
    assert after.read_bytes - before.read_bytes >= 4096
    assert after.collections[2] > before.collections[2]
    assert after.python_blocks - before.python_blocks > 9_000
    assert after.minor_faults >= before.minor_faults
    assert len(kept) == 10_000


def test_what_the_system_does_not_say_is_none(tmp_path):
    none = tmp_path / "none"
    reading = host_counters(0, 0, process_io=none, cpu_pressure=none)
    assert reading.storage_read_bytes is None
    assert reading.cpu_stalled_ns is None


def test_what_the_process_read_from_storage_is_a_line_of_its_own(tmp_path):
    path = tmp_path / "io"
    path.write_text("rchar: 9\nsyscr: 2\nread_bytes: 4096\ncancelled_write_bytes: 3\n")
    assert host_counters(0, 0, process_io=path).storage_read_bytes == 4096


def test_the_clock_is_that_of_the_core_on_which_the_thread_runs(tmp_path):
    assert core_mhz(tmp_path, tmp_path) is None
    task, core = tmp_path / str(threading.get_native_id()), tmp_path / "cpu3" / "cpufreq"
    for folder in (task, core, tmp_path / "cpufreq"):
        folder.mkdir(parents=True)
    assert core_mhz(tmp_path, tmp_path) is None
    numbers = [str(number) for number in range(4, 39)]
    (task / "stat").write_text(f"7 (a) b) R {' '.join(numbers)} 3 0 0")
    (core / "scaling_cur_freq").write_text("2450123\n")
    assert core_mhz(tmp_path, tmp_path) == 2450


@linux_only
def test_the_kernel_names_a_core_of_the_machine():
    stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat").read_text()
    assert int(stat.rpartition(")")[2].split()[_CORE]) < os.cpu_count()
