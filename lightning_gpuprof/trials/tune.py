"""`tune(...)`: a few batch sizes run for real, each in a process of its own; loads no torch."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.errors import ConfigError

CHILD = [sys.executable, "-m", "lightning_gpuprof.trials.measure"]


@dataclass(frozen=True)
class TunePoint:
    """Time and memory of training at one batch size; memory is None on a CPU.

    Either `step_ns`, the median of the measured steps, is given, or `error` says why the size did
    not run.
    """

    batch_size: int
    device: str | None = None
    step_ns: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    total_bytes: int | None = None
    error: str | None = None

    @property
    def samples_per_s(self) -> float | None:
        """The throughput of a size that ran."""
        return self.batch_size * 1e9 / self.step_ns if self.step_ns else None


def tune(
    model: str,
    batch_sizes: Sequence[int] = (8, 16, 32, 64),
    *,
    steps: int = 20,
    precision: str = "32-true",
) -> list[TunePoint]:
    """Measure throughput and memory of some batch sizes, up to the first that does not run.

    One batch stays on the device: waiting for data is not part of it.

    Args:
        model: "package.module:function" or "file.py:function", a function as `plan` takes it.
        batch_sizes: Sizes to run.
        steps: Steps measured at each size, after five to warm up.
        precision: As Lightning's Trainer names it.

    Returns:
        One point per size, smallest first.

    Raises:
        ConfigError: An argument or the model cannot be used.
    """
    if steps < 1:
        raise ConfigError(f"steps={steps} would measure nothing. Pass 1 step or more.")
    points: list[TunePoint] = []
    for size in sorted(set(batch_sizes)):
        asked = {"batch_size": size, "steps": steps, "precision": precision}
        points.append(_measured({"model": model, **asked}))
        if points[-1].error is not None:
            break  # a larger size would fail likewise
    return points


def _measured(request: dict[str, Any]) -> TunePoint:
    """Measure in a child, whose end frees all memory that it took."""
    done = subprocess.run([*CHILD, json.dumps(request)], stdout=subprocess.PIPE, check=False)
    if done.returncode < 0:
        error = f"the process was killed by signal {-done.returncode}"
        return TunePoint(request["batch_size"], error=error)
    if done.returncode:
        raise ConfigError(f"{request['model']} could not be measured: its message is above.")
    return TunePoint(**json.loads(done.stdout.splitlines()[-1]))
