"""On a CUDA or ROCm device: marks cost no sync, and say what a profiler's trace says."""

from collections import Counter
from itertools import pairwise

import gpu_runs
import pytest
import torch
from gpu_runs import ON_GPU, Trace, whole
from lightning.pytorch import Callback, LightningModule
from torch import nn
from torch.profiler import record_function
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.device_events import DeviceEvents
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.module_timer import ModuleTimer
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import NOT_MEASURED, ProbeDisabled
from lightning_gpuprof.timing.device_marks import DeviceMarks

pytestmark = ON_GPU
STEPS, FIRST, LAST = 40, 15, 24
SYNCS = ("Synchronize", "cudaMemcpy", "hipMemcpy")
HEAVY, TINY = 4096, 16


class Model(LightningModule):
    """Matrix products, their phases annotated for a trace."""

    def __init__(self, width, depth=6, *, item=False):
        super().__init__()
        self.encoder = nn.Linear(width, width)
        layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)]
        self.body = nn.Sequential(*layers)
        self.width, self.item = width, item

    def train_dataloader(self):
        # Pinned already: a loader that pins 64 MiB for each step would be the bottleneck.
        data = torch.randn(self.width, self.width).pin_memory()
        return DataLoader([data] * STEPS, batch_size=None)

    def training_step(self, batch, batch_idx):
        with record_function("phase forward"):
            loss = self.body(self.encoder(batch)).square().mean()
        if self.item:
            loss.item()
        return loss

    def backward(self, loss):
        with record_function("phase backward"):
            loss.backward()

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        with record_function("phase optimizer_step"):
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-4)

    def on_train_end(self):
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


class Strict(Callback):
    """From the tenth step on any sync is an error."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx == 10:
            torch.cuda.set_sync_debug_mode("error")


def fit(tmp_path, model, *callbacks):
    try:
        gpu_runs.fit(tmp_path, model, *callbacks, logger=False, default_root_dir=tmp_path)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def timer(tmp_path, **options):
    return PhaseTimer(
        window=20, console=False, overhead_budget=1.0, log_dir=str(tmp_path / "run"), **options
    )


def columns(tmp_path):
    return read_run(str(tmp_path / "run"))[0].sessions[-1].columns


def waits(events):
    """Calls that may wait for the device, and copies from it."""
    found = Counter()
    for event in events:
        name, category = str(event.get("name")), event.get("cat")
        runtime = category in ("cuda_runtime", "cuda_driver", "hip_runtime")
        if runtime and any(part in name for part in SYNCS) and "Async" not in name:
            found[name] += 1
        elif category == "gpu_memcpy" and "DtoH" in name:
            found[name] += 1
    return found


def test_a_trace_with_the_callback_has_the_same_syncs_and_copies_as_without(tmp_path, figure):
    def counted(name, *callbacks):
        trace = Trace(tmp_path / f"{name}.json", FIRST, LAST)
        fit(tmp_path, Model(256), *callbacks, trace)
        events = trace.events()
        assert any(event.get("cat") == "kernel" for event in events), "no kernel was recorded"
        return waits(events)

    counted("warm-up")
    bare = counted("bare")
    modules = ModuleTimer(["encoder", "body"])
    timed = counted("with", timer(tmp_path), modules)
    whole = counted("whole", callback(tmp_path / "whole"))
    for name, found in (("timers", timed), ("GpuProfCallback", whole)):
        different = sum((found - bare).values()) + sum((bare - found).values())
        figure(f"timing: syncs and copies to the host, with {name} and without", different, most=0)


def callback(folder, **options):
    # Each step is marked.
    return whole(overhead_budget=1.0, log_dir=str(folder), **options)


def test_training_with_the_callback_passes_where_every_sync_is_an_error(tmp_path, figure):
    strict = callback(tmp_path / "run", window=5, modules=("encoder",))
    fit(tmp_path, Model(256), strict, Strict())
    found = columns(tmp_path)
    figure("timing: steps trained where every sync is an error", len(found["step"]) - 10, least=30)
    assert len(found["step"]) == STEPS
    assert (found["device_dur"][5:30] != NOT_MEASURED).all()
    assert not read_run(str(tmp_path / "run"))[0].sessions[-1].all(ProbeDisabled)


def test_device_phases_agree_with_a_trace_of_the_same_steps(tmp_path, figure):
    trace = Trace(tmp_path / "trace.json", FIRST, LAST)
    fit(tmp_path, Model(HEAVY), timer(tmp_path), trace)
    found = columns(tmp_path)
    # Not the first and the last, in which the trace begins and ends.
    steps = slice(FIRST + 1, LAST)
    assert (found["device_dur"][steps] != NOT_MEASURED).all()
    by_phase = device_ns_of_trace(trace.events())
    assert by_phase["steps"] == LAST - FIRST - 1
    # A mark passes when the work before it ends, a trace has a phase end where the next begins:
    # between a kernel and the next batch's copy lies what it takes to change the engine.
    change_ns = 20_000 * by_phase["steps"]
    for phase in ("forward", "backward", "optimizer_step"):
        off_ns = abs(int(found[f"device/{phase}"][steps].sum()) - by_phase[phase])
        share = max(0, off_ns - change_ns) / by_phase[phase]
        figure(f"timing: device's {phase} off the trace, beyond 20 µs a step", share, most=0.03)


def device_ns_of_trace(events):
    """Time from each phase's first kernel to the next phase's, over the steps but the outer ones.

    A kernel belongs to the innermost annotation around its launch. Within the optimizer's step,
    whose closure trains the batch, what is launched before backward (Lightning scales the loss
    and keeps a copy of it) goes to forward, as with marks.
    """
    spans = [
        (e["ts"], e["ts"] + e["dur"], e["name"].removeprefix("phase "))
        for e in events
        if e.get("cat") == "user_annotation" and e["name"].startswith("phase ")
    ]
    launched = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    work = sorted(
        (e["ts"], e["ts"] + e["dur"], launched[e["args"]["correlation"]])
        for e in events
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        and e["args"].get("correlation") in launched
    )
    steps = sorted(start for start, _, name in spans if name == "optimizer_step")
    backward = sorted(start for start, _, name in spans if name == "backward")
    total = Counter(steps=len(steps) - 2)
    for (start, _, at), (following, *_) in pairwise(work):
        around = [(end - begin, name) for begin, end, name in spans if begin <= at <= end]
        step = sum(1 for begin in steps if begin <= at) - 1
        if around and 0 < step < len(steps) - 1:
            phase = min(around)[1]
            if phase == "optimizer_step" and at < backward[step]:
                phase = "forward"
            total[phase] += round((following - start) * 1000)
    return total


@pytest.mark.parametrize(
    ("model", "state"),
    [
        (lambda: Model(HEAVY), StepState.DEVICE_BOUND),
        (lambda: Model(TINY, depth=150), StepState.HOST_BOUND),
        (lambda: Model(HEAVY, item=True), StepState.SYNC_BOUND),
    ],
    ids=["device", "host", "sync"],
)
def test_steps_are_bound_by_what_was_made_slow(tmp_path, model, state):
    fit(tmp_path, model(), timer(tmp_path))
    found = analyze_run(read_run(str(tmp_path / "run")), {}).device.time
    assert found.state is state, found


def test_the_device_clock_is_calibrated_to_microseconds():
    import time

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    marks = DeviceMarks(DeviceEvents(torch.device("cuda", 0)), time.perf_counter_ns)
    assert marks.calibrate()
    assert marks.clock.error_ns < 20_000


def test_components_have_device_time_and_weights_stay_the_same(tmp_path):
    def weights(*callbacks):
        torch.manual_seed(0)
        model = Model(512)
        fit(tmp_path, model, *callbacks)
        return {name: value.cpu() for name, value in model.state_dict().items()}

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        bare = weights()
        timed = weights(timer(tmp_path), ModuleTimer(["encoder", "body"]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(value, bare[name]) for name, value in timed.items())
    found = columns(tmp_path)
    for phase in ("forward", "backward"):
        marked = found["device_dur"] != NOT_MEASURED
        assert (found[f"device_part/{phase}/body"][marked] > 0).all()
        parts = found[f"device_part/{phase}/body"] + found[f"device_part/{phase}/encoder"]
        assert (parts[marked] <= found[f"device/{phase}"][marked]).all()


def test_a_step_that_is_captured_in_a_graph_is_not_disturbed(tmp_path):
    class Captured(Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 0:
                self.static = torch.zeros_like(batch, requires_grad=True)
                self.replayed = torch.cuda.make_graphed_callables(self.body, (self.static,))
            return self.replayed(self.encoder(batch)).square().mean()

    fit(tmp_path, Captured(256), timer(tmp_path))
    assert (columns(tmp_path)["device_dur"][5:30] != NOT_MEASURED).all()
