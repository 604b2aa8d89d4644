"""Control groups and threads as Linux shows them, in a folder of the test's own."""

import os
import threading

import pytest

from lightning_gpuprof.recorders.cores import core_wait, cpu_quota, cpu_time, io_pressure
from lightning_gpuprof.records.facts import CpuQuota

STAT = "usage_usec 9\nnr_periods 200\nnr_throttled 150\nthrottled_usec 77\n"


@pytest.fixture
def groups(tmp_path):
    own = tmp_path / "own"

    def made(named, folder, files):
        own.write_text(named)
        where = tmp_path / "cgroup" / folder
        where.mkdir(parents=True)
        for name, text in files.items():
            (where / name).write_text(text)
        return cpu_quota(tmp_path / "cgroup", own)

    return made


def test_a_containers_own_group_is_read(groups):
    found = groups("0::/\n", "", {"cpu.stat": STAT, "cpu.max": "250000 100000\n"})
    assert found == CpuQuota(cores=2.5, periods=200, throttled=150)


def test_a_group_below_is_found_by_its_name(groups):
    found = groups("0::/job/7\n", "job/7", {"cpu.stat": STAT, "cpu.max": "400000 100000\n"})
    assert found.cores == 4


@pytest.mark.parametrize("files", [
    {"cpu.stat": STAT, "cpu.max": "max 100000\n"},
    {"cpu.stat": "usage_usec 9\n", "cpu.max": "250000 100000\n"},
    {},
])  # fmt: skip
def test_without_a_quota_or_its_counters_there_is_nothing_to_read(groups, files):
    assert groups("0::/\n", "", files) is None


def test_a_system_without_control_groups_has_none(tmp_path):
    assert cpu_quota(tmp_path, tmp_path / "none") is None


def test_the_threads_wait_for_a_core_is_read_where_the_kernel_counts_it(tmp_path):
    assert core_wait(tmp_path) is None
    folder = tmp_path / str(threading.get_native_id())
    folder.mkdir()
    (folder / "schedstat").write_text("1000 250 3\n")
    assert core_wait(tmp_path).queued_ns == 250


def test_how_long_storage_held_something_up_is_read_where_the_kernel_counts_it(tmp_path):
    assert io_pressure(tmp_path / "io") is None
    line = "avg10=0.00 avg60=1.25 avg300=0.40 total=2500"
    (tmp_path / "io").write_text(f"some {line}\nfull {line.replace('2500', '9')}\n")
    assert io_pressure(tmp_path / "io").stalled_ns == 2_500_000


def test_the_main_threads_wait_for_a_core_is_read_with_the_process_time(tmp_path):
    main = tmp_path / str(os.getpid())
    main.mkdir()
    (main / "schedstat").write_text("500 70 3\n")
    before, after = cpu_time(tmp_path), cpu_time(tmp_path)
    assert before.queued_ns == 70
    assert after.used_ns >= before.used_ns > 0
    assert after.since(before).queued_ns == 0
    assert cpu_time(tmp_path / "missing") is None
