"""The console lines and the record of a batch-size suggestion."""

from msgspec.structs import replace

from lightning_gpuprof.memory.advise import BatchSizeAdvice
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.records.schema import Advice, AdviceDetails
from lightning_gpuprof.units import size


def vram_line(reading: MemoryReading) -> str:
    """Return the console line of a reading."""
    return (
        f"[PROFILE] VRAM: allocated: {size(reading.allocated_bytes)} | "
        f"reserved: {size(reading.reserved_bytes)} | peak since the process began: "
        f"{size(reading.peak_reserved_bytes)} | total: {size(reading.total_bytes)}"
    )


def advice_line(advice: BatchSizeAdvice) -> str:
    """Return the console line of a suggestion.

    >>> advice_line(BatchSizeAdvice(16, suggested=56, low=47, high=64))
    '[PROFILE] batch size: 16 now, 56 suggested (47 to 64 fill the target band)'
    """
    text = f"[PROFILE] batch size: {advice.batch_size} now, "
    if advice.suggested is None:
        return f"{text}no suggestion: {advice.reason}"
    # A suggestion held below the band does not fill it.
    band = [f"{advice.low} to {advice.high} fill the target band"] * (advice.low != advice.high)
    why = "; ".join([*band, *advice.notes])
    return f"{text}{advice.suggested} suggested" + (f" ({why})" if why else "")


def advice_record(
    advice: BatchSizeAdvice, *, step: int, accumulate: int = 1, world_size: int = 1
) -> Advice:
    """Return the record of a suggestion, with its gradient accumulation and learning rate."""
    details = AdviceDetails(
        constant_bytes=advice.constant_bytes,
        per_sample_bytes=advice.per_sample_bytes,
        largest_batch_size=advice.largest,
        notes=tuple(advice.notes),
    )
    if advice.suggested is not None:
        steps = max(1, round(advice.batch_size * accumulate / advice.suggested))
        before = advice.batch_size * accumulate * world_size
        after = advice.suggested * steps * world_size
        details = replace(
            details,
            accumulate_grad_batches=steps,
            effective_batch_size=after,
            learning_rate=_learning_rate(before, after),
        )
    return Advice(
        step=step,
        batch_size=advice.batch_size,
        suggested_batch_size=advice.suggested,
        low=advice.low,
        high=advice.high,
        reason=advice.reason or "; ".join(advice.notes),
        details=details,
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
