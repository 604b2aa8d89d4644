"""The five guides that people follow by hand, each from end to end by this package's commands.

`docs/recipes.md` has a section for each. Where a device is needed, a recording of one is read.
"""

import json
import multiprocessing
import re
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader, IterableDataset

from lightning_gpuprof import (
    GpuProfCallback,
    ab_test,
    arithmetic_intensity,
    benchmark_latency,
    profile_model,
    report,
)
from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
PLAIN = {
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command of this package; returns what it prints."""

    def ran(*arguments):
        capsys.readouterr()
        assert main([str(one) for one in arguments]) == 0
        return re.sub(r"\s+", " ", capsys.readouterr().out)

    return ran


def test_a_world_model_from_phases_to_its_parts(example, run, said):
    """Coarse phases, sub-timers, red flags of a trace, rocprof's statistics, memory by line."""
    example("dreamer_rssm")
    from pendulum import episodes
    from timers import Dreamer

    trainer = Trainer(
        callbacks=[GpuProfCallback(modules=["encoder", "world_model", "dream"], window=10)],
        max_epochs=1,
        **PLAIN,
    )
    share = r"\d+(?:\.\d)?%"
    phases = rf"data: {share} \| fwd: {share} \| bwd: {share}"
    with said(rf"\[PROFILE\] {phases} \| .*total: \d+\.\d+s/\d+ steps"):
        trainer.fit(Dreamer(), DataLoader(episodes(80), batch_size=4))
    text = run("report", trainer.log_dir, "--verbose")
    document = decode(run("report", trainer.log_dir, "--json"))
    modules = document.rows("modules")
    calls = {one["name"]: one["calls_per_step"] for one in modules}
    assert calls == {"encoder": 16, "world_model": 16, "dream": 1}
    assert all(one["forward_ns"] > 0 for one in modules)
    assert "fold time into the batch" in text
    assert "Are there many short calls of operators?" in text
    assert "gemm<float>" in run("analyze", TRACES / "rocprof_v1.stats.csv")
    assert "a snapshot of the CUDA allocator" in run("analyze", TRACES / "memory_snapshot.pickle")


def section_of_the_docs():
    """Return the `profiling:` section as docs/reference/settings.md has it."""
    page = (ROOT / "docs/reference/settings.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    return next(block for block in blocks if "unit: epoch" in block)


class Compiled(BoringModel):
    """Has a compiled function in its step."""

    scaled = staticmethod(torch.compile(lambda batch: batch.sin() * 2, backend="eager"))

    def training_step(self, batch, batch_idx):
        return super().training_step(self.scaled(batch), batch_idx)


@pytest.mark.parametrize(
    ("epochs", "told"),
    [
        (11, "next profiler window records 36 steps"),
        (10, "only 1 of its 2 cycles .* whole: epochs 4 to 6, then epochs 8 to 9"),
    ],
)
def test_a_training_that_yaml_describes(folder, run, said, epochs, told):
    """Eleven epochs give two traces; ten say before they start what they will record."""
    path = folder / "config.yaml"
    path.write_text(section_of_the_docs() + "  compiled: eager\n  quiet_window: true\n")
    trainer = Trainer(
        callbacks=[GpuProfCallback.from_yaml(path)],
        max_epochs=epochs,
        limit_train_batches=12,
        limit_val_batches=2,
        **PLAIN,
    )
    with said(told):
        trainer.fit(Compiled())
    traces = sorted(Path(trainer.log_dir, "plugins", "gpuprof").glob("*.pt.trace.json.gz"))
    assert len(traces) == 2
    document = decode(run("analyze", traces[1], "--json"))
    assert len(document.rows("steps")) == 12 * (epochs - 8)
    names = {row["name"] for row in document.rows("operators")}
    assert "aten::sin" in names
    assert not any("Compiled" in name for name in names)


def test_inference_before_and_after(run):
    """Latency, prediction as a run of its own, A/B, the table, rocprof's kernels and syncs."""
    model, tokens = BoringModel().eval(), torch.randn(40, 32)
    latency = benchmark_latency(model, tokens[:2], warmup=2, iterations=5)
    assert latency["min_ms"] <= latency["median_ms"] <= latency["max_ms"]
    correct, speedup = ab_test(model, model, (tokens[:2],), warmup=1, iterations=5)
    assert correct
    assert speedup > 0
    runs = []
    for _ in range(2):
        trainer = Trainer(callbacks=[GpuProfCallback()], **PLAIN)
        trainer.predict(model, DataLoader(tokens, batch_size=2), return_predictions=False)
        (folder,) = Path(trainer.log_dir).rglob("rank0.jsonl")
        runs.append(folder.parents[2])
    assert "predict" in run("report", runs[0])
    assert "BEFORE AND AFTER" in run("compare", *runs)
    said = run("analyze", TRACES / "rocprof_v1.db")
    for figure in ("Kernels 2", "Matrix multiplies 67%", "Host syncs 0%", "Launch gaps 26%"):
        assert figure in " ".join(said.split())
    assert "Launch overhead 17%" in " ".join(said.split())
    table = run("compare", TRACES / "rocprof_v1.db", TRACES / "rocpd.db")
    assert re.search("End-to-end time .* Kernels per step .* Matrix products .* Host syncs", table)
    assert re.search("Launch gaps .* lower", table)


def environment(connection):
    """Step an environment of plain Python for whoever asks."""
    while True:
        try:
            connection.recv()
        except EOFError:
            return
        connection.send([float(sum(range(60_000)) % 7)] * 32)


class Rollouts(IterableDataset):
    """Batches of what environments in processes of their own answer, asked one by one."""

    def __init__(self, processes):
        self.processes = processes

    def __iter__(self):
        fork = multiprocessing.get_context("fork")
        pairs = [fork.Pipe() for _ in range(self.processes)]
        workers = [fork.Process(target=environment, args=(one,), daemon=True) for _, one in pairs]
        for worker in workers:
            worker.start()
        for _ in range(80):
            yield torch.tensor([self.ask(connection) for connection, _ in pairs])
        for worker in workers:
            worker.kill()  # a forked child has Lightning's SIGTERM handler, which goes on

    def ask(self, connection):
        connection.send("step")
        return connection.recv()


def test_a_rollout_that_waits_for_its_workers(run):
    """The share of the wait for worker processes, advice by effort, and fewer of them compared."""
    runs = []
    for processes in (2, 1):
        trainer = Trainer(callbacks=[GpuProfCallback()], max_epochs=1, **PLAIN)
        trainer.fit(BoringModel(), DataLoader(Rollouts(processes), batch_size=None))
        runs.append(trainer.log_dir)
    text = run("report", runs[0], "--verbose")
    assert re.search(r"waits for data, \S+% of it for own workers", text), text
    order = (
        "one message per step",
        "fewer processes",
        "pinned",
        "packed",
        "arrays",
        "state on the device",
    )
    places = [text.index(step, text.index("in order of effort")) for step in order]
    assert places == sorted(places)
    assert "Result:" in run("compare", *runs) or "time per s" in run("compare", *runs)


def test_find_and_fix_with_any_tool(run):
    """A bare model, files of nsys, ncu and JAX, intensity by operator, and the roofline's side."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    batches = [(torch.randn(8, 64), torch.zeros(8))] * 4
    found = profile_model(model, batches, device="cpu")
    assert any(row["name"] == "aten::addmm" for row in found.document.rows("operators"))
    assert found.phases
    assert report("lightning_logs/version_0").phases
    for name in ("nsys.sqlite", "ncu_long.csv", "jax.xplane.pb", "jax_memory.prof"):
        assert json.loads(run("analyze", TRACES / name, "--json"))
    assert "Matrix multiplies" in run("analyze", TRACES / "nsys.sqlite")
    matmul = arithmetic_intensity("mm", (512, 512), (512, 512), device="NVIDIA H100 80GB HBM3")
    assert matmul.flop_per_byte == pytest.approx(2 * 512**3 / (3 * 512**2 * 4))
    assert matmul.bound in ("compute", "memory")
