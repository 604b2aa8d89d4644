from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.memory.device import CudaMemory, memory_probe


class FakeCuda:
    def __init__(self, stats, backend="native"):
        self.stats = stats
        self.memory = SimpleNamespace(get_allocator_backend=lambda: backend)

    def memory_stats_as_nested_dict(self, device):
        return self.stats

    def mem_get_info(self, device):
        return 300, 1000


POOLS = {"small_pool": {"current": 5}, "large_pool": {"current": 9}}
STATS = {
    "allocated_bytes": {"all": {"current": 1, "peak": 2}, **POOLS},
    "reserved_bytes": {"all": {"current": 3, "peak": 4}, **POOLS},
    "active_bytes": {"all": {"current": 2}, **POOLS},
    "inactive_split_bytes": {"all": {"current": 8}, **POOLS},
    "num_alloc_retries": 6,
    "num_ooms": 7,
}


def test_a_reading_takes_torchs_counters_and_resets_nothing():
    cuda = FakeCuda(STATS)
    reading = CudaMemory(torch.device("cuda", 0), cuda=cuda).read()
    assert (reading.allocated_bytes, reading.peak_allocated_bytes) == (1, 2)
    assert (reading.reserved_bytes, reading.peak_reserved_bytes) == (3, 4)
    assert (reading.alloc_retries, reading.ooms) == (6, 7)
    assert (reading.free_bytes, reading.total_bytes) == (300, 1000)
    assert (reading.split_bytes, reading.others_bytes) == (8, 697)
    assert reading.allocator_bytes["active"] == {"all": 2, "small_pool": 5, "large_pool": 9}
    assert list(reading.allocator_bytes) == ["allocated", "active", "inactive_split", "reserved"]


def test_a_device_that_was_not_used_yet_gives_no_reading():
    assert CudaMemory(torch.device("cuda", 0), cuda=FakeCuda({})).read() is None


def test_devices_without_counters_are_not_measured():
    assert memory_probe(torch.device("cpu")) is None
    assert memory_probe(torch.device("mps")) is None


@pytest.mark.parametrize(
    ("backend", "counts"), [("native", True), ("cudaMallocAsync", True), ("pluggable", False)]
)
def test_an_allocator_without_counters_is_not_measured(backend, counts):
    probe = memory_probe(torch.device("cuda", 0), cuda=FakeCuda(STATS, backend))
    assert (probe is not None) is counts
