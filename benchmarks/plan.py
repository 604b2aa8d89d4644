"""Compares `plan` with the memory that torch's CPU allocator hands out in real training steps.

    python benchmarks/plan.py

Each model trains at each size under torch.profiler with `profile_memory=True`: two steps at its
longest samples, the one of varying length also eight steps of lengths drawn at random. The peak is
that of the running sum of the allocation events, which hold the kernels' own temporary memory too.
The prediction, for the longest samples, is compared without cuBLAS's workspaces, which a CPU does
not have. On a GPU `benchmarks/on_gpu/gpu_memory.py` compares with CUDA's allocator instead.
"""

import sys
import warnings
from typing import Any

from _harness import one_thread, write_results
from memory_models import MODELS, longest_of
from torch.profiler import ProfilerActivity, profile

from lightning_gpuprof.trials.model import make_optimizer
from lightning_gpuprof.trials.predict import predict

SIZES = {"mlp": (512, 2048), "resnet": (16, 64), "transformer": (16, 64), "varying": (16, 64)}
WITHIN_FRAC = 0.10


def measured_peak(name: str, size: int, *, drawn: bool = False) -> int:
    """Return the most that was allocated at once, in bytes, in real steps."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as prof:
        model, batches = MODELS[name]()
        optimizer = make_optimizer(model)
        for _ in range(8 if drawn else 2):
            batch = batches(size) if drawn else batches.longest(size)  # type: ignore[attr-defined]
            loss = model.training_step(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del batch, loss
    changes = [
        (event.start_ns(), event.nbytes())
        for event in prof.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    now = peak = 0
    for _, change in sorted(changes, key=lambda one: one[0]):
        now += change
        peak = max(peak, now)
    return peak


def compare(name: str, size: int) -> dict[str, Any]:
    """Return predicted and measured peak of one model at one size."""
    (point,) = predict(lambda: longest_of(name), [size], workspace_bytes=0)
    predicted = point.peak_allocated_bytes
    measured = measured_peak(name, size, drawn=name == "varying")
    return {
        "predicted_bytes": predicted,
        "measured_bytes": measured,
        "off_frac": round(predicted / measured - 1, 4),
    }


def main() -> int:
    one_thread()
    warnings.filterwarnings("ignore")
    rows = {f"{name} {size}": compare(name, size) for name in MODELS for size in SIZES[name]}
    for name, row in rows.items():
        predicted, measured = (row[f"{key}_bytes"] / 2**20 for key in ("predicted", "measured"))
        said = f"predicted {predicted:6.1f} MiB, measured {measured:6.1f} MiB"
        print(f"{name:16} {said}, {row['off_frac']:+.1%}")
    worst = max(abs(row["off_frac"]) for row in rows.values())
    write_results("plan", {"worst_off_frac": worst, "peaks": rows})
    return int(worst > WITHIN_FRAC)


if __name__ == "__main__":
    sys.exit(main())
