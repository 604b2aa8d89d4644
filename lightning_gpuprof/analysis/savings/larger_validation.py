"""What validation would take with batches as large as training's."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.records.phases import Phase

AT_MOST = 0.5
"""Larger shares of training's batch leave too little to gain."""
LOW_FRAC = 0.5
"""Metrics and decoding may grow with the samples."""
_PER_BATCH = (Phase.HOST_TO_DEVICE, Phase.FORWARD, Phase.LOGGING, Phase.OTHER)


@dataclass(frozen=True)
class LargerBatches:
    """A size for validation's batches, and what it saves per training step."""

    now: int
    batch_size: int
    low_ns: int
    high_ns: int


def larger_batches(run: RunResults) -> LargerBatches | None:
    """Return what batches of training's size save where validation's are much smaller.

    Such a batch takes no longer than training's without its backward pass; on a GPU, where host
    times say little of that, no longer than a step. None where nothing is saved.
    """
    seen, trained, step_ns = run.validations, run.batch_size, run.step_ns
    loader = seen.loader if seen else None
    if seen is None or loader is None or loader.loaders or run.every is None or not step_ns:
        return None
    size, batches = loader.batch_size, loader.length
    if not size or not batches or not trained or size > AT_MOST * trained:
        return None
    wanted = round(trained)
    parts = [run.per_step(phase) for phase in _PER_BATCH]
    each_ns = step_ns if run.on_gpu else sum(part.mean_ns for part in parts if part)
    gone_ns = seen.batches_ns - -(-batches * size // wanted) * each_ns
    per_step_ns = gone_ns * seen.count // run.every.steps
    if per_step_ns <= 0:
        return None
    return LargerBatches(size, wanted, round(LOW_FRAC * per_step_ns), around(per_step_ns)[1])
