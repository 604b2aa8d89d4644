import sys

import pytest

from lightning_gpuprof.probes import page_faults
from lightning_gpuprof.probes.page_faults import Faults, fault_ns, thread_faults

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts by thread")


@LINUX
def test_new_memory_is_counted_and_what_it_takes_is_tried():
    before = thread_faults()
    assert fault_ns() > 0
    after = thread_faults()
    assert after.faults > before.faults
    assert after.system_ns >= before.system_ns


def test_the_fastest_of_three_tries_counts():
    counts = iter([0, 10, 10, 20, 20, 30])
    times = iter([0, 50_000, 60_000, 70_000, 80_000, 110_000])
    taken = fault_ns(lambda: Faults(next(counts), 0), lambda: next(times))
    assert taken == 1_000


def test_where_faults_are_not_counted_by_thread_there_is_nothing(monkeypatch):
    monkeypatch.setattr(page_faults, "resource", None)
    assert thread_faults() is None
    assert fault_ns() is None
