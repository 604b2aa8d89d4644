"""On a CUDA or ROCm device: what is promised of compiled code, syncs, leaks, sharding, timing."""

from collections import Counter

import pytest
import torch
from gpu_runs import ON_GPU, Trace, fit, whole
from lightning.pytorch import LightningModule
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader

from lightning_gpuprof.analysis.memory.memory_dump import analyze_snapshot_file
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProbeDisabled, Snapshot
from lightning_gpuprof.trials.latency import benchmark_latency

pytestmark = ON_GPU
STEPS, FIRST, LAST = 60, 20, 39
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy", "hipMemcpyWithStream")
WAITS += ("hipStreamSynchronize", "hipDeviceSynchronize", "hipMemcpy")


class Model(LightningModule):
    def __init__(self, *, item=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.item, self.kept = item, []

    def train_dataloader(self):
        return DataLoader([torch.randn(32, 64).pin_memory()] * STEPS, batch_size=None)

    def training_step(self, batch, batch_idx):
        loss = self.body(batch).square().mean()
        if self.item:
            self.log("loss", loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Leaking(Model):
    def training_step(self, batch, batch_idx):
        self.kept.append(torch.zeros(2**20, device=self.device))  # the leak
        return super().training_step(batch, batch_idx)


def trained(tmp_path, model, *callbacks, **options):
    return fit(tmp_path, model, *callbacks, **options).logger.log_dir


def waits_and_copies(events):
    """Count the calls that wait, and the copies to the host, of a trace."""
    names = Counter()
    for event in events:
        if event.get("name") in WAITS:
            names["waits"] += 1
        if event.get("cat") == "gpu_memcpy" and "DtoH" in event["name"]:
            names["pageable" if "Pageable" in event["name"] else "pinned"] += 1
    return names


def test_with_deferred_loss_no_step_waits_where_each_did_with_item(tmp_path, figure):
    def waits(name, model, *callbacks):
        trace = Trace(tmp_path / f"{name}.json", FIRST, LAST)
        trained(tmp_path, model, *callbacks, trace)
        return waits_and_copies(trace.events())

    waits("warm-up", Model())
    bare, item = waits("bare", Model()), waits("item", Model(item=True))
    deferred = waits("deferred", Model(), DeferredLoss(window=5))
    steps = LAST - FIRST + 1
    figure("syncs: waits of 20 steps with loss.item()", item["waits"] - bare["waits"], least=steps)
    figure("syncs: waits of 20 steps with DeferredLoss", deferred["waits"] - bare["waits"], most=0)
    figure("syncs: copies to pageable memory with DeferredLoss", deferred["pageable"], most=0)
    figure("syncs: copies to pinned memory in 4 windows", deferred["pinned"], most=5)


def test_compiled_code_is_compiled_as_without_the_callback(tmp_path, figure):
    from torch._dynamo.utils import counters

    class Where(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 1)

        def forward(self, x):
            return torch.where(x > 0, x, 0.0) @ self.layer.weight.T + torch.tensor([1.0]).sum()

    def counted(*callbacks):
        torch._dynamo.reset()
        counters.clear()
        model = Model()
        model.body = torch.compile(Where(), backend="aot_eager")
        trained(tmp_path, model, *callbacks)
        return {key: dict(counters[key]) for key in ("stats", "graph_break", "frames")}

    bare = counted()
    found = counted(whole(modules=("body",)))
    different = sum(bare[key] != found[key] for key in bare)
    figure("timing: counters of torch.compile that differ", different, most=0)


def test_a_planted_leak_is_found_with_its_line(tmp_path, figure):
    line = next(
        number
        for number, text in enumerate(open(__file__, encoding="utf-8"), start=1)
        if text.endswith("# the leak\n")
    )
    # Long enough for the leak to outweigh cuBLAS's workspaces, 32 MiB a thread on Hopper.
    snapshot = MemorySnapshot(steps=(5, 55), on_oom=False)
    run = trained(tmp_path, Leaking(), whole(window=5), snapshot)
    results = analyze_run(read_run(run), {})
    assert "memory-growth" in [finding.id for finding in evaluate_rules(results).findings]
    [record] = read_run(run)[0].sessions[0].all(Snapshot)
    path = f"{run}/plugins/gpuprof/{record.file}"
    sites = analyze_snapshot_file(path).devices[torch.cuda.current_device()].peak.sites
    rank = [(site.file, site.line) for site in sites].index((__file__, line))
    figure("memory: place of the leak's line among the sites at the peak", rank + 1, most=1)


def test_a_flat_run_says_nothing_of_growth(tmp_path):
    run = trained(tmp_path, Model(), whole(window=5))
    found = evaluate_rules(analyze_run(read_run(run), {})).findings
    assert "memory-growth" not in [finding.id for finding in found]


def test_latency_is_the_devices_own(figure):
    left, right = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    found = benchmark_latency(torch.mm, left, right, warmup=5, iterations=20)
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(20):
            torch.mm(left, right)
        torch.cuda.synchronize()
    kernels = [event for event in recorded.events() if event.device_type.name == "CUDA"]
    assert kernels, "the profiler recorded no kernel"
    traced_ms = sum(event.time_range.elapsed_us() for event in kernels) / 20 / 1000
    assert found.clock == "device events"
    figure(
        "latency: off what the trace says, as a share",
        abs(found.median_ms / traced_ms - 1),
        most=0.05,
    )


@pytest.mark.parametrize("strategy", ["fsdp", "ddp", "model_parallel"])
def test_one_sharded_rank_is_measured_as_a_plain_one(tmp_path, strategy):
    from lightning.pytorch.strategies import ModelParallelStrategy

    class Sharded(Model):
        def configure_model(self):
            if strategy == "model_parallel":
                from torch.distributed.fsdp import fully_shard

                fully_shard(self.body, mesh=self.device_mesh["data_parallel"])

    chosen = ModelParallelStrategy() if strategy == "model_parallel" else strategy
    run = trained(tmp_path, Sharded(), whole(modules=("body",)), strategy=chosen)
    session = read_run(run)[0].sessions[0]
    assert not session.all(ProbeDisabled)
    assert len(session.columns["step"]) == STEPS
    assert (session.columns["device_dur"] > 0).any()
