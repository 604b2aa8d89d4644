"""The lines and the record of a batch-size suggestion."""

from typing import Any

from lightning_gpuprof.analysis.memory.batch_size import BatchSizeAdvice
from lightning_gpuprof.analysis.memory.effective_batch import effective_batch
from lightning_gpuprof.callbacks._lightning import Trainer
from lightning_gpuprof.probes.memory.memory import MemoryReading
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
    """Return the console line of one window.

    >>> gib = 2**30
    >>> vram_line(MemoryReading(gib, 2 * gib, gib, 3 * gib, 4 * gib, 20 * gib, 24 * gib, 0, 0))
    '[PROFILE] VRAM: allocated: 1.00 GiB | reserved: 2.00 GiB | peak: 4.00 GiB | total: 24.0 GiB'
    """
    return (
        f"[PROFILE] VRAM: allocated: {size(reading.allocated_bytes)} | "
        f"reserved: {size(reading.reserved_bytes)} | peak: {size(reading.peak_reserved_bytes)} | "
        f"total: {size(reading.total_bytes)}"
    )


def advice_line(advice: BatchSizeAdvice) -> str:
    """Return the console line of the first suggestion.

    >>> advice_line(BatchSizeAdvice(16, suggested=56, low=47, high=64))
    '[PROFILE] batch size: 16 now, 56 suggested (47 to 64 fill the target band)'
    >>> advice_line(BatchSizeAdvice(16, suggested=64, low=64, high=64, notes=("held at 4",)))
    '[PROFILE] batch size: 16 now, 64 suggested (held at 4)'
    >>> advice_line(BatchSizeAdvice(16, reason="it does not grow"))
    '[PROFILE] batch size: 16 now, no suggestion: it does not grow'
    """
    if advice.suggested is None:
        return f"[PROFILE] batch size: {advice.batch_size} now, no suggestion: {advice.reason}"
    # One that is held below the band does not fill it.
    band = [f"{advice.low} to {advice.high} fill the target band"] * (advice.low != advice.high)
    why = "; ".join([*band, *advice.notes])
    text = f"[PROFILE] batch size: {advice.batch_size} now, {advice.suggested} suggested"
    return f"{text} ({why})" if why else text


def advice_record(advice: BatchSizeAdvice, step: int, trainer: Trainer) -> Advice:
    """Return the record of a suggestion, with what it means for accumulation."""
    details: dict[str, Any] = {
        "constant_bytes": advice.constant_bytes,
        "per_sample_bytes": advice.per_sample_bytes,
        "largest_batch_size": advice.largest,
        "notes": list(advice.notes),
    }
    if advice.suggested is not None:
        effective = effective_batch(
            advice.batch_size,
            advice.suggested,
            accumulate=trainer.accumulate_grad_batches,
            world_size=trainer.world_size,
        )
        details["accumulate_grad_batches"] = effective.accumulate
        details["effective_batch_size"] = effective.after
        details["learning_rate"] = effective.note
    return Advice(
        step=step,
        batch_size=advice.batch_size,
        suggested_batch_size=advice.suggested,
        low=advice.low,
        high=advice.high,
        reason=advice.reason or "; ".join(advice.notes),
        details={name: value for name, value in details.items() if value is not None},
    )
