"""Uses the public names as a program would; `make check` has mypy and pyright read it.

Both find the package as an installed one, whose types they only believe with its `py.typed`.
"""

from collections.abc import Callable

from lightning.pytorch import LightningModule, Trainer
from torch import nn
from typing_extensions import assert_type

from lightning_gpuprof import (
    BatchSizeAdvisor,
    DeferredLoss,
    GpuProfCallback,
    GpuProfConfig,
    ModuleTimer,
    PhaseTimer,
    ProfilerSchedule,
    ab_test,
    arithmetic_intensity,
    benchmark_latency,
    compare_runs,
    plan,
    profile_model,
    region,
    report,
)


def train(model: LightningModule) -> None:
    """Train with the callback, and with single parts of it."""
    config = GpuProfConfig(wait=3, active=3, modules=("encoder",))
    Trainer(callbacks=[GpuProfCallback(config)]).fit(model)
    Trainer(callbacks=[GpuProfCallback.from_yaml("config.yaml")]).fit(model)
    parts = [PhaseTimer(), ProfilerSchedule(ranks=(0, 8)), DeferredLoss(), BatchSizeAdvisor()]
    Trainer(callbacks=[*parts, ModuleTimer(["encoder"])]).fit(model)


@region("dream")
def dream(steps: int) -> float:
    """Return something; the decorator leaves the function's type as it is."""
    with region("step"):
        return steps / 2


def read(path: str) -> str:
    """Read a run and a comparison."""
    run = report(path)
    finding = run.findings[0]
    assert_type(finding.title, str)
    assert_type(dream(3), float)
    comparison = compare_runs(path, path)
    assert_type(comparison.sentence, str)
    return finding.id


def measure(model: nn.Module, make: Callable[[], object]) -> None:
    """Measure functions and predict memory."""
    latency = benchmark_latency(model, 1, iterations=10)
    assert_type(latency.mean_ms, float)
    answer = ab_test(make, make, [])
    assert_type(answer.correct, bool)
    assert_type(plan(make, vram_bytes=2**34).cards[0].batch_size, int | None)
    assert_type(arithmetic_intensity("matmul", (64, 512), (512, 512)).flop_per_byte, float)
    assert_type(str(profile_model(model, [], grad=True)), str)


def wrong() -> None:
    """What the types refuse: without them, the comments would be reported as needless."""
    report(run=3)  # type: ignore[arg-type]
    compare_runs("base")  # type: ignore[call-arg]
