"""On a CUDA or ROCm device: what this package takes for granted of torch, one thing per test."""

import json
import pickle
import sys
import time

import pytest
import torch
from gpu_runs import ON_GPU, fit, session, whole
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.memory_history import CudaMemoryHistory
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.inspect.cuda_syncs import CudaSyncDetector
from lightning_gpuprof.memory.device import memory_probe
from lightning_gpuprof.recorders.scalars.transfer import HostCopy
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProbeDisabled, Snapshot

pytestmark = ON_GPU
BUSY_CYCLES = 200_000_000
"""About a tenth of a second at any present GPU's clock."""


@pytest.fixture
def strict():
    """From here on each sync is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def watched():
    """Return what is reported while a function runs: operation and the line on the stack."""

    def report(operation):
        frame = sys._getframe(1)
        while frame.f_code.co_filename != __file__:
            frame = frame.f_back
        seen.append((operation, frame.f_code.co_name))

    def run(function):
        watch = CudaSyncDetector(report)
        assert watch.start()
        try:
            function()
        finally:
            watch.stop()
        return seen

    seen = []
    return run


def test_torch_warns_of_a_sync_while_its_line_is_on_the_stack(watched):
    value = torch.ones((), device="cuda")

    def reads():
        value.item()

    assert watched(reads) == [("item", "reads")]


def test_each_explicit_wait_is_seen_once(watched):
    event = torch.cuda.Event()
    event.record()

    def waits():
        torch.cuda.synchronize()
        torch.cuda.current_stream().synchronize()
        event.synchronize()

    of = ("synchronize", "stream.synchronize", "event.synchronize")
    assert watched(waits) == [(one, "waits") for one in of]


def test_the_profiler_records_kernels_copies_and_the_calls_that_launched_them(tmp_path):
    """Where it does not (no permission, another profiler), all that reads a trace fails too."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as recorded:
        (torch.ones(8).to("cuda") + 1).cpu()
    path = tmp_path / "trace.json"
    recorded.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    kinds = {str(event.get("cat")) for event in events}
    assert kinds >= {"cpu_op", "cuda_runtime", "kernel", "gpu_memcpy"}, sorted(kinds)


def test_a_copy_from_pageable_memory_is_seen_and_an_asynchronous_one_is_not(watched):
    pageable, pinned = torch.ones(8), torch.ones(8).pin_memory()

    def copies():
        pageable.to("cuda")
        pinned.to("cuda", non_blocking=True)
        pageable.to("cuda", non_blocking=True)

    assert watched(copies) == [("pageable copy", "copies")]


def test_reading_the_memory_does_not_sync(strict):
    probe = memory_probe(torch.device("cuda", 0))
    kept = torch.ones(2**20, device="cuda")
    reading = probe.read()
    assert reading.allocated_bytes >= kept.nbytes


def test_a_copy_to_pinned_memory_does_not_wait_for_a_busy_device(strict):
    values = torch.arange(4.0, device="cuda")
    HostCopy(values).result()  # allocates what the second one takes over
    torch.cuda._sleep(BUSY_CYCLES)
    begin = time.perf_counter_ns()
    pending = HostCopy(values)
    took_ns = time.perf_counter_ns() - begin
    assert not pending.ready()
    assert took_ns < 10_000_000
    assert pending.result().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_capture_is_seen_and_outlived_by_events_recorded_before_it():
    before = torch.cuda.Event(enable_timing=True)
    before.record()
    static, graph = torch.ones(8, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        kept = static + 1  # made anew, so in the graph's own pool
    assert not torch.cuda.is_current_stream_capturing()
    behind = torch.cuda.Event(enable_timing=True)
    behind.record()
    torch.cuda.synchronize()
    assert before.query()
    assert before.elapsed_time(behind) > 0
    assert kept.is_cuda


def test_the_allocators_history_holds_notes_and_python_lines(tmp_path):
    history = CudaMemoryHistory()
    history.start(1000)
    history.note("forward")
    kept = torch.zeros(2**20, device="cuda")
    path = tmp_path / "snapshot.pickle"
    history.dump(str(path))
    history.stop()
    content = pickle.loads(path.read_bytes())
    events = [event for trace in content["device_traces"] for event in trace]
    [found] = [one for one in events if one["action"] == "alloc" and one["size"] >= kept.nbytes]
    assert found["user_metadata"] == "forward"
    assert any(frame["filename"] == __file__ for frame in found["frames"])


def test_an_oom_leaves_a_snapshot_and_goes_on_as_it_is(tmp_path):
    class Greedy(BoringModel):
        def training_step(self, batch, batch_idx):
            if batch_idx == 5:
                torch.zeros(2**42, dtype=torch.uint8, device=self.device)
            return super().training_step(batch, batch_idx)

    with pytest.raises(torch.OutOfMemoryError):
        fit(tmp_path, Greedy(), MemorySnapshot())
    [run] = tmp_path.glob("lightning_logs/version_*")
    [record] = read_run(str(run))[0].sessions[0].all(Snapshot)
    assert (record.reason, record.step) == ("oom", 5)
    assert record.oom["requested_bytes"] == 2**42


def test_workers_forked_from_a_process_that_uses_the_device_touch_it_not(tmp_path):
    class Loaded(BoringModel):
        def train_dataloader(self):
            data = RandomDataset(32, 240)
            return DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)

    trainer = fit(tmp_path, Loaded(), whole())
    assert not session(trainer).all(ProbeDisabled)
    assert trainer.global_step == 30
