"""What a batch size means for gradient accumulation and the learning rate."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EffectiveBatch:
    """What goes with a change of the batch size.

    Attributes:
        accumulate: `accumulate_grad_batches` that keeps them nearest to what they were.
        after: Samples per optimizer step with it and the new batch size, over all ranks.
        note: What to do with the learning rate.
    """

    accumulate: int
    after: int
    note: str


def effective_batch(
    batch_size: int, suggested: int, *, accumulate: int = 1, world_size: int = 1
) -> EffectiveBatch:
    """Return the accumulation that keeps the effective batch, and the learning-rate note.

    >>> effective_batch(16, 64, accumulate=8).accumulate
    2
    >>> effective_batch(16, 64, accumulate=8).note
    'the effective batch stays 128: leave the learning rate'
    """
    steps = max(1, round(batch_size * accumulate / suggested))
    before = batch_size * accumulate * world_size
    after = suggested * steps * world_size
    return EffectiveBatch(steps, after, _note(before, after))


def _note(before: int, after: int) -> str:
    if before == after:
        return f"the effective batch stays {before}: leave the learning rate"
    times = after / before
    return (
        f"the effective batch goes from {before} to {after}: try the learning rate times "
        f"{times:.3g} with SGD (Goyal et al. 2017) or times {times**0.5:.3g} with Adam (Malladi "
        "et al. 2022), with warm-up, and check the validation loss"
    )
