from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.trials import machine


class Stopwatch:
    """Says that every call took so long, after making it."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.results = []
        self.tf32 = []

    def __call__(self, work):
        self.results.append(work())
        self.tf32.append(torch.backends.cuda.matmul.allow_tf32)
        return self.seconds


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_a_product_of_two_matrices_counts_two_operations_per_multiply_add(dtype):
    watch = Stopwatch(0.5)

    rate = machine.gemm_flop_per_s(dtype, "cpu", size=8, best_s=watch)

    assert rate == 2 * 8**3 / 0.5
    assert watch.results[0].shape == (8, 8)
    assert watch.results[0].dtype == machine.DTYPES[dtype]


@pytest.fixture(params=[False, True])
def tf32_allowed(request):
    """Torch's setting as somebody left it; its module takes no deletion, as monkeypatch would."""
    found = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32 = found


def test_tf32_is_on_for_its_own_product_alone_and_the_setting_is_put_back(tf32_allowed):
    watch = Stopwatch(1.0)

    machine.gemm_flop_per_s("fp32", "cpu", size=4, best_s=watch)
    machine.gemm_flop_per_s("tf32", "cpu", size=4, best_s=watch)

    assert watch.tf32 == [False, True]
    assert torch.backends.cuda.matmul.allow_tf32 is tf32_allowed


def test_a_copy_reads_and_writes_each_byte():
    watch = Stopwatch(0.25)

    assert machine.copy_bytes_per_s("cpu", 1000, best_s=watch) == 2 * 1000 / 0.25
    assert watch.results[0].numel() == 1000


@pytest.mark.parametrize(
    ("capability", "bf16", "hip", "dtypes"),
    [
        ((9, 0), True, None, {"fp32", "fp16", "bf16", "tf32"}),
        ((7, 0), False, None, {"fp32", "fp16"}),
        ((9, 4), True, "6.4", {"fp32", "fp16", "bf16"}),
    ],
)
def test_what_is_measured_is_what_the_device_can_do(monkeypatch, capability, bf16, hip, dtypes):
    free_bytes = 16 * 10**9
    cuda = {
        "device": lambda index: nullcontext(),
        "mem_get_info": lambda index: (free_bytes, free_bytes),
        "is_bf16_supported": lambda: bf16,
        "get_device_capability": lambda index: capability,
        "get_device_properties": lambda index: SimpleNamespace(name="Made-up 9000"),
    }
    for name, value in cuda.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.version, "hip", hip)
    asked = []
    monkeypatch.setattr(
        machine, "gemm_flop_per_s", lambda dtype, device, size: asked.append(size) or 1e12
    )
    monkeypatch.setattr(machine, "copy_bytes_per_s", lambda device, size: float(size))

    measured = machine.measure(0)

    assert measured["name"] == "Made-up 9000"
    assert set(measured["flop_per_s"]) == dtypes
    assert set(asked) == {8192}
    assert measured["memory_bytes_per_s"] == machine.COPY_BYTES


def test_a_small_device_gets_small_matrices():
    assert machine.gemm_size(2 * 10**9) == 8192
    assert machine.gemm_size(600 * 10**6) == 4096
    assert machine.gemm_size(0) == 256
