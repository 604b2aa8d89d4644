"""The five guides that people follow by hand, each from end to end by this package's commands.

`docs/usage.md` has a paragraph for each. Where a device is needed, a recording of one is read.
"""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader

from lightning_gpuprof import (
    GpuProfCallback,
    ab_test,
    arithmetic_intensity,
    benchmark_latency,
    profile_model,
    report,
)
from lightning_gpuprof.cli import main

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
H100 = ROOT / "tests" / "data" / "h100"
EXAMPLES = ROOT / "example_projects"
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
        return capsys.readouterr().out

    return ran


@pytest.fixture
def example(monkeypatch):
    """Make one example's modules importable for this test."""
    before = set(sys.modules)

    def enter(name):
        if not (EXAMPLES / name).is_dir():
            pytest.skip("the example projects are not part of this copy of the sources")
        monkeypatch.syspath_prepend(str(EXAMPLES / name))

    yield enter
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


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
    with said(r"\[PROFILE\] data: .*\| fwd: .*\| bwd: .*\| total: .*/\d+ steps"):
        trainer.fit(Dreamer(), DataLoader(episodes(80), batch_size=4))
    text = run("report", trainer.log_dir, "--verbose")
    for part, calls in {"encoder": 16, "world_model": 16, "dream": 1}.items():
        assert re.search(rf"\b{part} .*\b{calls}\b", text), text
    assert "fold time into the batch" in text
    assert "Where to look" in text or "LOOK" in text
    assert "GEMM" in run("analyze", TRACES / "rocprof_v1.stats.csv")
    assert "memory_snapshot" in run("analyze", TRACES / "memory_snapshot.pickle")


def section_of_the_docs():
    """Return the `profiling:` section as docs/usage.md has it."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "usage.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "unit: epoch" in block)


@pytest.mark.parametrize(("epochs", "last"), [(11, 10), (10, 9)])
def test_a_training_that_yaml_describes(folder, run, said, epochs, last):
    """Eleven epochs give two traces; ten say before they start what they will record."""
    path = folder / "config.yaml"
    path.write_text(section_of_the_docs() + "  compiled: eager\n  quiet_window: true\n")
    model = BoringModel()
    model.layer.compile(backend="eager")
    trainer = Trainer(
        callbacks=[GpuProfCallback.from_yaml(path)],
        max_epochs=epochs,
        limit_train_batches=12,
        limit_val_batches=2,
        **PLAIN,
    )
    told = (
        "next profiler window records 36 steps"
        if epochs == 11
        else "epochs 4 to 6, then epochs 8 to 9"
    )
    with said(told):
        trainer.fit(model)
    traces = sorted(Path(trainer.log_dir, "plugins", "gpuprof").glob("*.pt.trace.json.gz"))
    assert len(traces) == 2
    document = json.loads(run("analyze", traces[1], "--json"))
    assert len(document["steps"]) == 12 * (last - 7)
    names = {row["name"] for row in document["operators"]}
    assert "aten::linear" in names or "aten::addmm" in names
    assert not any("Compiled" in name for name in names)


class Scored(LightningModule):
    """Attention over tokens, for prediction."""

    def __init__(self):
        super().__init__()
        self.score = torch.nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, tokens):
        return self.score(tokens, tokens, tokens, need_weights=False)[0]

    def predict_step(self, batch, batch_idx):
        return self(batch)


def test_inference_before_and_after(run):
    """Latency, prediction as a run of its own, A/B, the table, rocprof's kernels and syncs."""
    model, tokens = Scored().eval(), torch.randn(40, 6, 16)
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
    assert "Before and after" in run("compare", *runs)
    document = json.loads(run("analyze", TRACES / "rocprof_v1.db", "--json"))
    assert document["kernels"]
    table = run("compare", H100 / "host-bound", H100 / "fp32-products")
    assert re.search(r"kernels per step.*\n(.*\n)*.*GEMM", table, re.IGNORECASE), table


def test_a_rollout_that_waits_for_its_workers(example, run, folder):
    """The share of the wait for worker processes, in order of effort, and the calls of a step."""
    example("kg_rollout")
    from policy import Policy
    from workers import WorkerRollouts

    runs = []
    for _ in range(2):
        policy = Policy()
        trainer = Trainer(callbacks=[GpuProfCallback()], max_epochs=1, **PLAIN)
        rollouts = WorkerRollouts(policy, batches=40, walks=8)
        trainer.fit(policy, DataLoader(rollouts, batch_size=None))
        runs.append(trainer.log_dir)
    text = run("report", runs[0], "--verbose")
    assert "own worker processes" in text
    assert re.search(
        r"one message per step.*fewer processes.*pinned.*packed.*device", text, re.DOTALL
    )
    assert "no difference" in run("compare", *runs) or "time per step" in run("compare", *runs)


def test_find_and_fix_with_any_tool(run):
    """A bare model, files of nsys, ncu and JAX, intensity by operator, and the roofline's side."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    batches = [(torch.randn(8, 64), torch.zeros(8))] * 4
    found = profile_model(model, batches, device="cpu")
    assert "aten::addmm" in str(found)
    assert found.phases
    assert report("lightning_logs/version_0").phases
    for name in ("nsys.sqlite", "ncu_long.csv", "jax.xplane.pb", "jax_memory.prof"):
        assert json.loads(run("analyze", TRACES / name, "--json"))
    assert "GEMM" in run("analyze", TRACES / "nsys.sqlite")
    matmul = arithmetic_intensity("mm", (512, 512), (512, 512), device="NVIDIA H100 80GB HBM3")
    assert matmul.flop_per_byte == pytest.approx(2 * 512**3 / (3 * 512**2 * 4))
    assert matmul.bound in ("compute", "memory")
