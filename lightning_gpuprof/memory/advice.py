"""The console lines and the record of a batch-size suggestion."""

from typing import Any

from lightning_gpuprof.memory.advise import BatchSizeAdvice
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.records.schema import Advice
from lightning_gpuprof.units import size


def not_measured(device_type: str) -> str:
    """Return why no device memory is measured.

    >>> not_measured("cpu")
    'not measured (no GPU)'
    """
    why = "an allocator without counters" if device_type == "cuda" else "no GPU"
    return f"not measured ({why})"


def vram_line(reading: MemoryReading) -> str:
    """Return the console line of a reading.

    >>> gib = 2**30
    >>> vram_line(MemoryReading(gib, 2 * gib, gib, 3 * gib, 4 * gib, 0, 20 * gib, 24 * gib, 0, 0))
    '[PROFILE] VRAM: allocated: 1.00 GiB | reserved: 2.00 GiB | peak since the process began: \
4.00 GiB | total: 24.0 GiB'
    """
    return (
        f"[PROFILE] VRAM: allocated: {size(reading.allocated_bytes)} | "
        f"reserved: {size(reading.reserved_bytes)} | peak since the process began: "
        f"{size(reading.peak_reserved_bytes)} | total: {size(reading.total_bytes)}"
    )


def advice_line(advice: BatchSizeAdvice) -> str:
    """Return the console line of a suggestion.

    >>> advice_line(BatchSizeAdvice(16, suggested=56, low=47, high=64))
    '[PROFILE] batch size: 16 now, 56 suggested (47 to 64 fill the target band)'
    >>> advice_line(BatchSizeAdvice(16, suggested=64, low=64, high=64, notes=("held at 4",)))
    '[PROFILE] batch size: 16 now, 64 suggested (held at 4)'
    >>> advice_line(BatchSizeAdvice(16, reason="it does not grow"))
    '[PROFILE] batch size: 16 now, no suggestion: it does not grow'
    """
    if advice.suggested is None:
        return f"[PROFILE] batch size: {advice.batch_size} now, no suggestion: {advice.reason}"
    # A suggestion held below the band does not fill it.
    band = [f"{advice.low} to {advice.high} fill the target band"] * (advice.low != advice.high)
    why = "; ".join([*band, *advice.notes])
    text = f"[PROFILE] batch size: {advice.batch_size} now, {advice.suggested} suggested"
    return f"{text} ({why})" if why else text


def advice_record(
    advice: BatchSizeAdvice, *, step: int, accumulate: int = 1, world_size: int = 1
) -> Advice:
    """Return the record of a suggestion, with its gradient accumulation and learning rate.

    Args:
        advice: The suggestion.
        step: The training step at which it is made.
        accumulate: `accumulate_grad_batches` of the Trainer.
        world_size: Number of ranks.

    >>> advice_record(BatchSizeAdvice(16, suggested=64), step=9, accumulate=8).details
    {'notes': [], 'accumulate_grad_batches': 2, 'effective_batch_size': 128, 'learning_rate': 'the \
effective batch stays 128: leave the learning rate'}
    """
    details: dict[str, Any] = {
        "constant_bytes": advice.constant_bytes,
        "per_sample_bytes": advice.per_sample_bytes,
        "largest_batch_size": advice.largest,
        "notes": list(advice.notes),
    }
    if advice.suggested is not None:
        steps = max(1, round(advice.batch_size * accumulate / advice.suggested))
        before = advice.batch_size * accumulate * world_size
        after = advice.suggested * steps * world_size
        details["accumulate_grad_batches"] = steps
        details["effective_batch_size"] = after
        details["learning_rate"] = _learning_rate(before, after)
    return Advice(
        step=step,
        batch_size=advice.batch_size,
        suggested_batch_size=advice.suggested,
        low=advice.low,
        high=advice.high,
        reason=advice.reason or "; ".join(advice.notes),
        details={name: value for name, value in details.items() if value is not None},
    )


def _learning_rate(before: int, after: int) -> str:
    if before == after:
        return f"the effective batch stays {before}: leave the learning rate"
    times = after / before
    return (
        f"the effective batch goes from {before} to {after}: try the learning rate times "
        f"{times:.3g} with SGD (Goyal et al. 2017) or times {times**0.5:.3g} with Adam (Malladi "
        "et al. 2022), with warm-up, and check the validation loss"
    )
