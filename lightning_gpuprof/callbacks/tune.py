"""`tune(...)`: a few batch sizes run for real, each in a process of its own."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lightning_gpuprof.analysis.memory.tune import Tune, run_tune
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.tune_child import measure_in_child
from lightning_gpuprof.probes.batch_size.tune_types import TunePoint, TuneRequest


def tune(
    make: str | Callable[[], Any],
    batch_sizes: Sequence[int] = (8, 16, 32, 64),
    *,
    steps: int = 20,
    warmup: int = 5,
    optimizer: str = "model",
    precision: str = "32-true",
    device: str = "auto",
    target_frac: tuple[float, float] = (0.6, 0.8),
) -> Tune:
    """Measure throughput and memory of some batch sizes, and suggest one.

    Each size trains in a process of its own, so that running out of memory costs nothing here;
    sizes above the first that does are left out. One batch stays on the device: waiting for
    data is not part of it. On a CPU memory is not measured.

    Args:
        make: As `plan` takes it: a function at the top of a file, or "package.module:function".
        batch_sizes: Sizes to run.
        steps: Steps measured at each size.
        warmup: Steps before them.
        optimizer: As in `plan`.
        precision: As in `plan`.
        device: auto, cpu or cuda.
        target_frac: Band of the device's memory to fill.

    Returns:
        Each size's step in ns, samples per second and peak memory in bytes, and the suggestion.

    Raises:
        ConfigError: An argument or the model cannot be used.
    """
    if steps < 1 or warmup < 0:
        raise ConfigError(
            f"tune(steps={steps}, warmup={warmup}) would measure nothing. Pass 1 step or more."
        )
    model = make if isinstance(make, str) else spec_of(make)

    def measure(size: int) -> TunePoint:
        return measure_in_child(
            TuneRequest(
                model=model,
                batch_size=size,
                steps=steps,
                warmup=warmup,
                optimizer=optimizer,
                precision=precision,
                device=device,
            )
        )

    return run_tune(measure, batch_sizes, band=target_frac)


def spec_of(make: Callable[[], Any]) -> str:
    """Return `file.py:function`, by which another process finds a function.

    Raises:
        ConfigError: It is not at the top of a file.
    """
    name = getattr(make, "__qualname__", "")
    try:
        file = inspect.getsourcefile(make)
    except TypeError:
        file = None
    if file is None or not name.isidentifier():
        raise ConfigError(
            f"tune({name or make!r}) cannot be found by another process. Pass a function defined "
            'at the top of a file, or "package.module:function".'
        )
    return f"{file}:{name}"
