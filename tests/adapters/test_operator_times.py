"""The child process that times calls: which calls it can make, and with which inputs."""

import json
import subprocess
import sys
import threading

import msgspec
import pytest
import torch

from lightning_gpuprof.adapters import operator_times as module
from lightning_gpuprof.adapters.operator_times import TensorInput, TimedCall, times_of
from lightning_gpuprof.analysis.roofline.op_costs import MODELS
from lightning_gpuprof.analysis.run.operator_rates import NOT_TIMED
from lightning_gpuprof.records.operator_times import (
    OperatorInputs,
    TimingReply,
    TimingRequest,
)
from lightning_gpuprof.traces import open_timeline

MM = OperatorInputs("aten::mm", ([8, 8], [8, 8]), ("float", "float"))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(module, "REPEATS", 1)
    monkeypatch.setattr(module, "CACHE_BYTES", 1 << 10)


def test_a_request_is_answered_by_the_process():
    refused = msgspec.structs.replace(MM, name="aten::no_such_operator")
    request = TimingRequest(1, (MM, refused))
    child = subprocess.run(
        [sys.executable, "-m", module.__name__],
        input=msgspec.json.encode(request),
        capture_output=True,
        check=True,
    )
    reply = msgspec.json.decode(child.stdout, type=TimingReply)
    assert reply.torch == torch.__version__
    assert reply.times[0].normal_ns > 0
    assert reply.times[1] is None
    assert 0 <= reply.waited_frac <= 1


def test_the_wait_for_a_core_is_the_kernels(tmp_path):
    folder = tmp_path / str(threading.get_native_id())
    folder.mkdir()
    (folder / "schedstat").write_text("5 7 9\n")
    assert module.queued_ns(str(tmp_path)) == 7
    assert module.queued_ns(str(tmp_path / "none")) == 0


def test_numbers_are_ordinary_or_denormal_in_each_type():
    for name, dtype in module.FLOATS.items():
        tensor = TensorInput([3, 4], name, [1, 3])
        ordinary = tensor.make(None, strided=True, denormal=False)
        assert (ordinary.dtype, ordinary.stride()) == (dtype, (1, 3))
        assert bool(((ordinary >= 0.5) & (ordinary <= 1.5)).all())
        denormal = tensor.make(None, strided=False, denormal=True).double()
        assert bool(((denormal > 0) & (denormal < torch.finfo(dtype).smallest_normal)).all())
    assert tensor.make(torch.float32, strided=False, denormal=False).dtype == torch.float32
    mask = TensorInput([2], "bool", [1]).make(torch.float32, strided=False, denormal=False)
    assert mask.tolist() == [True, True]


@pytest.mark.parametrize(
    "call",
    [
        OperatorInputs("aten::mm", ([1 << 20, 1 << 20], [1 << 20, 1]), ("float", "float")),
        OperatorInputs("aten::mm", ([2, 3], [2, 3]), ("float", "float")),
        OperatorInputs("aten::mm", ([2, 3], [3, 2]), ("long int", "long int")),
        OperatorInputs("aten::mm", ([2, -3], [3, 2]), ("float", "float")),
        OperatorInputs("aten::mm", ([2, 3], [3, 2]), ("float", "float"), ([1 << 40, 1], [2, 1])),
        OperatorInputs("aten::cat", ([[2], [2]], []), ("TensorList", "Scalar"), (), ("", "0")),
        OperatorInputs("aten::abs", ([2],), ("c10::complex<float>",)),
        OperatorInputs(
            "aten::sum", ([2], [], [], []), ("float", "Scalar", "", ""), (), ("", "(", "", "")
        ),
    ],
)
def test_what_cannot_be_called_has_no_times(call):
    assert times_of(call) is None


def test_a_value_that_was_not_recorded_has_its_default():
    call = OperatorInputs("aten::add", ([2], [2], []), ("float", "float", "Scalar"))
    assert times_of(call) is not None


def test_types_and_strides_are_timed_only_if_they_differ(monkeypatch):
    asked = []
    monkeypatch.setattr(TimedCall, "_fastest_ns", lambda self, **kind: asked.append(kind) or 1)
    times_of(MM)
    denormal = {"strided": True, "denormal": True}
    assert asked == [{"dtype": torch.float32}, denormal, denormal]
    asked.clear()
    times_of(OperatorInputs("aten::mm", ([8, 8], [8, 8]), ("double",) * 2, ([8, 1], [1, 8])))
    assert asked[1:3] == [{}, {"strided": True}]


def test_the_thread_that_flushes_denormal_numbers_is_another(monkeypatch):
    def is_flushing(self, **kind):
        return 1 + int(sys.float_info.min / two == 0.0)

    two = 2.0
    monkeypatch.setattr(TimedCall, "_fastest_ns", is_flushing)
    times = times_of(MM)
    assert (times.denormal_ns, times.flushed_ns) == (1, 2)
    assert sys.float_info.min / two > 0.0


def calls():
    """Return an input of each kind of operator, as a call with gradients."""
    x, image, weight = torch.rand(4, 6), torch.rand(2, 3, 8, 8), torch.rand(5, 3, 3, 3)
    y = torch.rand(4, 6, requires_grad=True)
    functional = torch.nn.functional
    yield lambda: torch.mm(x, x.T)
    yield lambda: torch.addmm(torch.rand(4), x, x.T)
    yield lambda: torch.bmm(x[None], x.T[None])
    yield lambda: functional.gelu(y * 2.0 + x).sum().backward()
    yield lambda: functional.log_softmax(y, 1).mean().backward()
    yield lambda: functional.layer_norm(y, (6,)).relu().sum(0).mean().backward()
    yield lambda: torch.where(x > 0.5, y, x).exp().clamp(0.1).mean(1).sum().backward()
    kernel = weight.clone().requires_grad_()
    yield lambda: functional.conv2d(image, weight, stride=2, padding=1)
    yield lambda: functional.conv2d(image, kernel).sum().backward()
    yield lambda: torch.nn.BatchNorm2d(3)(image.clone().requires_grad_()).sum().backward()
    query = torch.rand(2, 2, 4, 8, requires_grad=True)
    yield lambda: functional.scaled_dot_product_attention(query, query, query).sum().backward()
    yield lambda: torch.optim.Adam([y], foreach=False).step()


def test_the_calls_of_a_real_trace_can_be_made(tmp_path):
    with torch.profiler.profile(record_shapes=True) as recording:
        for call in calls():
            call()
    path = tmp_path / "trace.json"
    recording.export_chrome_trace(str(path))
    timeline = open_timeline(str(path))
    host = timeline.host
    by_name = {}
    for name, arguments in zip(host.name.tolist(), host.arguments.tolist(), strict=True):
        if timeline.names[name] in MODELS and arguments >= 0:
            found = timeline.arguments[arguments]
            call = OperatorInputs(
                timeline.names[name], found.dims, found.dtypes, found.strides, found.values
            )
            by_name.setdefault(call.name, call)
    assert len(by_name) > 25
    refused = {name for name, call in by_name.items() if times_of(call) is None}
    assert refused <= {*NOT_TIMED}, json.dumps(sorted(refused))
