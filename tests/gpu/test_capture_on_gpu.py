"""On a CUDA or ROCm device: nothing here may make the host wait."""

import subprocess
import sys

import pytest
import torch
from gpu_runs import ON_GPU, fit, session
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.memory.device import memory_probe
from lightning_gpuprof.recorders.scalars.deferred import DeferredScalars
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog
from lightning_gpuprof.records.schema import Advice, Memory, ProbeDisabled

pytestmark = ON_GPU
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64]


@pytest.fixture
def no_sync():
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_are_those_of_item_without_a_sync_per_step(dtype):
    values = [(torch.randn((), device="cuda") * 100).to(dtype) for _ in range(10)]
    expected = [float(value.item()) for value in values]
    log = ScalarLog(["loss"])
    log.add(-1, {"loss": values[0]})  # makes the buffers
    log.drain()
    batches = []
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step, value in enumerate(values):
            log.add(step, {"loss": value})
            if step == 4:
                log.close_window()
            batches += log.arrived()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    batches += log.drain()
    assert [value for batch in batches for value in batch.values["loss"]] == expected


def test_sums_are_read_a_window_later_without_a_sync(no_sync):
    acc = DeferredScalars()
    for _ in range(3):
        acc["kl"] += torch.full((), 0.5, device="cuda")
    pending = acc.start_copy()
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert pending.ready()
    assert pending.by_name() == {"kl": 1.5}


def test_memory_and_a_suggestion_are_recorded(tmp_path):
    found = session(fit(tmp_path, BoringModel(), BatchSizeAdvisor(window=10)))
    readings = found.all(Memory)
    assert readings
    whole = torch.cuda.get_device_properties(0).total_memory
    assert readings[0].total_bytes == pytest.approx(whole, rel=0.02)
    assert not found.all(ProbeDisabled)
    assert found.all(Advice)


def test_reading_leaves_torchs_own_peak_as_it_is():
    probe = memory_probe(torch.device("cuda", 0))
    big = torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")
    peak = torch.cuda.max_memory_allocated()
    del big
    assert probe.read().peak_allocated_bytes == peak
    assert torch.cuda.max_memory_allocated() == peak


SEVERAL_RECORDINGS = """
import gzip, json, sys
from pathlib import Path
import torch
from torch.profiler import ProfilerActivity, profile
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule

def kernels(text):
    return sum(event.get("cat") == "kernel" for event in json.loads(text)["traceEvents"])

folder = Path(sys.argv[1])
for number in range(2):
    callback = ProfilerSchedule(wait=5, warmup=1, active=3, repeat=1, teardown=sys.argv[2])
    quiet = dict(logger=False, enable_checkpointing=False, enable_model_summary=False)
    trainer = Trainer(max_steps=30, accelerator="gpu", devices=1, enable_progress_bar=False,
                      limit_val_batches=0, default_root_dir=str(folder / str(number)),
                      callbacks=[callback], **quiet)
    trainer.fit(BoringModel())
    for path in sorted((folder / str(number)).rglob("*.pt.trace.json.gz")):
        print("ours", kernels(gzip.decompress(path.read_bytes())), flush=True)

both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
layer = torch.nn.Linear(64, 64).cuda()
for _ in range(2):
    for step in range(303):
        if step == 300:
            profiler = profile(activities=both)
            profiler.start()
        layer(torch.ones(8, 64, device="cuda")).sum().backward()
        torch.cuda.synchronize()
    profiler.stop()
    profiler.export_chrome_trace(str(folder / "theirs.json"))
    print("theirs", kernels((folder / "theirs.json").read_text()), flush=True)
"""
"""In a process of its own: CUPTI that is detached and attached again has crashed some."""


@pytest.mark.parametrize("teardown", ["off", "on"])
def test_every_recording_of_a_process_holds_kernels_ours_and_theirs(tmp_path, teardown):
    command = [sys.executable, "-c", SEVERAL_RECORDINGS, str(tmp_path), teardown]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    told = [line.split() for line in done.stdout.splitlines() if line[:4] in ("ours", "thei")]
    assert [who for who, _ in told] == 4 * ["ours"] + 2 * ["theirs"]
    assert [one for one in told if int(one[1]) == 0] == [], told
