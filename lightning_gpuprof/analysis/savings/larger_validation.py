"""What validations would take with batches as large as training's."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.records.phases import Phase

AT_MOST = 0.5
"""Of training's batch: larger ones make too few less of them to matter."""
LOW_FRAC = 0.5
"""As of code that is made cheaper: a validation may do more with each sample than training."""
MIN_SAMPLES = 10
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

    Such a batch takes in validation no longer than in training, without its backward pass; on a
    GPU, where the host's times say little of that, than a whole step. What validation does beside
    that (metrics, decoding) may grow with the samples: on a CPU samples of its lines bound it,
    else only `LOW_FRAC` of the saving is sure. None where nothing is saved.
    """
    seen, trained, step_ns = run.validations, run.batch_size, run.step_ns
    loader = seen.loader if seen else None
    if seen is None or loader is None or run.every is None or not step_ns:
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
    low_ns = round(LOW_FRAC * per_step_ns)
    own_frac = None if run.on_gpu else _own_frac(run)
    if own_frac is not None:
        own_ns = round(own_frac * seen.batches_ns * seen.count / run.every.steps)
        low_ns = max(low_ns, around(per_step_ns - own_ns)[0])
    return LargerBatches(size, wanted, low_ns, around(per_step_ns)[1])


def _own_frac(run: RunResults) -> float | None:
    """Return the most of validation's time at lines that no training step has; None if not seen.

    What logs there does so once for each batch.
    """
    lines = run.lines
    whole = 0 if lines is None else lines.by_phase.get(Phase.VALIDATION.value, 0)
    if lines is None or whole < MIN_SAMPLES:
        return None
    trained = {(one.file, one.line) for one in lines.of(Phase.FORWARD)}
    own = sum(
        one.count
        for one in lines.of(Phase.VALIDATION)
        if (one.file, one.line) not in trained and one.kind != "log"
    )
    # One that is not seen may well be the next one.
    return lines.interval(max(1, own), Phase.VALIDATION)[1]
