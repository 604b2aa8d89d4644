"""Names the shares of a run's account, and says how often their work is done."""

from lightning_gpuprof.analysis.run.account import Kind, Rhythm, Share
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.units import duration, shortened

_NAMES = {
    Kind.DATA_WAIT: "Waiting for batches",
    Kind.CALLBACK: "Other callbacks",
    Kind.LOGGER: "Logging",
    Kind.VALIDATION: "Validation",
    Kind.CHECKPOINT: "Saving checkpoints",
    Kind.GARBAGE_COLLECTION: "Garbage collection",
    Kind.LOOP: "The training loop itself",
}
_ONCE_NAMES = {
    Kind.VALIDATION: "The sanity check (num_sanity_val_steps)",
    Kind.DATA_WAIT: "The first batch",
    Kind.LOOP: "Start and end of the run",
}
_EPOCH_NAMES = {
    Kind.DATA_WAIT: "An epoch's first batch",
    Kind.LOOP: "Other work between epochs",
}
LEAST_ONCE_NS = 1_000_000_000
"""Work that is done once and takes less is left alone."""
LEAST_NS = {Kind.LOGGER: 250_000_000}
"""The same of a logger, which has hardly anything to write before the first step."""
MOST_LETTERS = 60
"""Longer names are shortened."""
PER = {
    Rhythm.STEP: "of each step",
    Rhythm.EPOCH: "per epoch",
    Rhythm.VALIDATION: "per validation",
    Rhythm.CHECKPOINT: "per checkpoint",
    Rhythm.ONCE: "once",
}
"""How often the work of a share is done, in words."""


def share_name(share: Share) -> str:
    """Return the name of a share: that of its hook or class, or what it is.

    >>> from lightning_gpuprof.records.phases import Phase
    >>> share_name(Share(Kind.LOOP, Phase.OTHER, None, Rhythm.STEP, 10, 1_000, 200))
    'The training loop itself'
    """
    if share.name is not None:
        return shortened(share.name, MOST_LETTERS)
    by_rhythm = {Rhythm.ONCE: _ONCE_NAMES, Rhythm.EPOCH: _EPOCH_NAMES}
    return by_rhythm.get(share.rhythm, {}).get(share.kind) or _NAMES[share.kind]


def each_time(share: Share, steps: int) -> str:
    """Say how long the work of a share takes each time, or of each of all steps.

    >>> from lightning_gpuprof.records.phases import Phase
    >>> wait = Share(Kind.DATA_WAIT, Phase.DATA_WAIT, None, Rhythm.EPOCH, 4, 80_000_000, 30_000_000)
    >>> each_time(wait, steps=100)
    '20.0 ms per epoch'
    """
    in_steps = share.rhythm is Rhythm.STEP
    return f"{duration(share.total_ns // steps if in_steps else share.each_ns)} {PER[share.rhythm]}"


def lengthening(run: RunResults) -> tuple[Share, ...]:
    """Return the shares that come again and make the run longer, the longest first.

    On a GPU, host time in steps may be hidden behind the device's work, and is left out.
    """
    if run.account is None:
        return ()
    shares = run.account.recurring
    return tuple(share for share in shares if not (run.on_gpu and share.rhythm is Rhythm.STEP))


def long_once(run: RunResults) -> tuple[Share, ...]:
    """Return named work that is done only once, and takes long and much of the run."""
    account = run.account
    if account is None:
        return ()
    least_ns = CRITICAL_FRAC * account.wall_ns
    once = [share for share in account.shares if share.rhythm is Rhythm.ONCE and share.name]
    return tuple(
        share
        for share in once
        if share.total_ns >= max(least_ns, LEAST_NS.get(share.kind, LEAST_ONCE_NS))
    )
