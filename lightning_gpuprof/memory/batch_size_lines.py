"""What is shown and recorded of a memory reading and of a suggested batch size."""

from lightning_gpuprof.memory.batch_size import BatchSizeAdvice
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.records.schema import Advice, AdviceDetails
from lightning_gpuprof.units import size


def vram_line(reading: MemoryReading) -> str:
    """Return the line that the console shows for a reading."""
    return (
        f"[PROFILE] VRAM: allocated: {size(reading.allocated_bytes)} | "
        f"reserved: {size(reading.reserved_bytes)} | peak since the process began: "
        f"{size(reading.peak_reserved_bytes)} | total: {size(reading.total_bytes)}"
    )


def advice_line(advice: BatchSizeAdvice) -> str:
    """Return the line that the console shows for a suggestion.

    >>> advice_line(BatchSizeAdvice(16, suggested=56, low=47, high=64))
    '[PROFILE] batch size: 16 now, 56 suggested (47 to 64 fill the target band)'
    """
    now = f"[PROFILE] batch size: {advice.batch_size} now"
    if advice.suggested is None:
        return f"{now}, no suggestion: {advice.reason}"
    remarks = list(advice.notes)
    if advice.low != advice.high:  # otherwise a limit keeps the suggestion below the target band
        remarks.insert(0, f"{advice.low} to {advice.high} fill the target band")
    explained = f" ({'; '.join(remarks)})" if remarks else ""
    return f"{now}, {advice.suggested} suggested{explained}"


def advice_record(
    advice: BatchSizeAdvice, *, step: int, accumulate: int = 1, world_size: int = 1
) -> Advice:
    """Return the record of a suggestion, with the accumulation and the learning rate for it."""
    accumulate_for_suggested = effective_after = learning_rate = None
    if advice.suggested is not None:
        samples = advice.batch_size * accumulate
        accumulate_for_suggested = max(1, round(samples / advice.suggested))
        effective_after = advice.suggested * accumulate_for_suggested * world_size
        learning_rate = _learning_rate(samples * world_size, effective_after)
    return Advice(
        step=step,
        batch_size=advice.batch_size,
        suggested_batch_size=advice.suggested,
        low=advice.low,
        high=advice.high,
        reason=advice.reason or "; ".join(advice.notes),
        details=AdviceDetails(
            constant_bytes=advice.constant_bytes,
            per_sample_bytes=advice.per_sample_bytes,
            largest_batch_size=advice.largest,
            notes=advice.notes,
            accumulate_grad_batches=accumulate_for_suggested,
            effective_batch_size=effective_after,
            learning_rate=learning_rate,
        ),
    )


def _learning_rate(before: int, after: int) -> str:
    """Say what an effective batch size of `after` samples in the place of `before` asks for."""
    if before == after:
        return f"the effective batch size stays {before}: leave the learning rate as it is"
    ratio = after / before
    return (
        f"the effective batch size goes from {before} to {after}: multiply the learning rate by "
        f"{ratio:.3g} with SGD (Goyal et al. 2017) or by {ratio**0.5:.3g} with Adam (Malladi et "
        "al. 2022), with warm-up, and check the validation loss"
    )
