"""Which change to propose where batches are ready in workers, and taking them over takes long."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import made_here_ns, made_in_ns
from lightning_gpuprof.analysis.savings.beside_workers import (
    both,
    fewer_bytes,
    handover_high_ns,
    made_at_most_ns,
)
from lightning_gpuprof.analysis.savings.cheaper_batches import SAMPLE_NS
from lightning_gpuprof.analysis.savings.hidden import Exposed, around
from lightning_gpuprof.analysis.savings.input_pipeline import HANDED_BYTES, HANDOVER_LOW_NS
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Cure, Range
from lightning_gpuprof.findings.worker_places import many_tensors
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import BATCH_NOTE
from lightning_gpuprof.units import duration, percent, size

BESIDE_NS = 1_500_000
"""Without workers as much may go beside the wait for them: 0.25 to 1.5 ms in thirteen programs on
two cores (docs/adr/0031)."""
CROWDED = 4
"""More workers than cores cost training up to a quarter more than the wait."""


def without_workers(run: RunResults, lost: Exposed) -> Cure | None:
    """Return what it saves to make batches without workers where they are rows in memory.

    None where it is not known to be little work, or workers hide it. Their start is no part of it:
    `worker-startup` tells that, with the same change.
    """
    loader, samples = run.start.loader, run.batch_size
    if loader is None or not loader.in_memory or not loader.num_workers or samples is None:
        return None
    made_ns = round(SAMPLE_NS * samples)
    if lost.low_ns <= made_ns:
        return None
    return Cure(
        f"The samples are rows of tensors in memory: to make a batch of {samples:,.0f} takes about "
        f"{duration(made_ns)}, to take it over from a worker process more. Make batches in the "
        "training process, or take rows by a list of indices (__getitems__).",
        "DataLoader(..., num_workers=0)",
        Range(low=lost.low_ns - made_ns, high=lost.high_ns),
    )


def hand_over_less(run: RunResults, step_ns: int, frac: float, lost: Exposed, most_ns: int) -> Cure:
    """Return the change to no workers: what goes is the wait, but for the making of batches."""
    loader = run.start.loader
    advice = (
        f"{percent(frac)} of the wait is this process taking batches from its workers, not "
        "waiting for them: make batches without workers, or fewer and larger tensors per batch."
    )
    change, made_ns = "DataLoader(..., num_workers=0)", made_at_most_ns(run)
    # More workers than cores also take turns with the training itself. One per core may be what
    # costly batches need: these would then be made in the training process.
    crowded = loader and run.cores is not None and (loader.num_workers or 0) > run.cores
    more_ns = most_ns // CROWDED if crowded else 0
    if made_ns is None:
        low_ns = most_ns // 2 if crowded else 0
        saving = Range(low=low_ns, high=min(step_ns, most_ns + more_ns))
        return Cure(advice, change, saving, sure=bool(crowded))
    seen_ns, least_ns = made_in_ns(run), made_here_ns(run) or 0
    takes = f"at most {duration(made_ns)}" if seen_ns is None else f"about {duration(seen_ns)}"
    advice += f" To make one takes {takes} in a worker."
    low_ns = max(0, lost.low_ns - made_ns)
    high_ns = most_ns - around(least_ns)[0] + max(more_ns, 0 if run.on_gpu else BESIDE_NS)
    saving = Range(low=low_ns, high=min(step_ns, max(low_ns, high_ns)))
    return Cure(advice, change, saving, sure=low_ns >= WARNING_FRAC * step_ns)


def send_less(run: RunResults, step_ns: int, frac: float, lost: Exposed, cheaper: Cure) -> Cure:
    """Return the change to smaller batches, where workers have them ready.

    What is handed over costs little by its size up to `HANDED_BYTES`: of that nothing goes for
    sure. A larger one is also freed, and first read, by the training process.
    """
    large = large_bytes(run)
    of = f" of {size(large)}" if large else ""
    advice = (
        f"{percent(frac)} of the wait is this process taking batches{of} that its workers have "
        f"ready. To make one takes longer than the wait ({duration(made_in_ns(run) or 0)} in a "
        "worker), so to do without workers is no cure: "
    )
    if not large:
        advice += "this is about what handing over costs. "
        advice += many_tensors(run) or "Fewer tensors per batch may cost less."
        return Cure(advice, None, Range(low=0, high=cheaper.saving.high), sure=False)
    freed = fewer_bytes(run, large)
    waited_low_ns = max(0, lost.low_ns - handover_high_ns(run))
    waited = waited_low_ns, max(waited_low_ns, lost.high_ns - HANDOVER_LOW_NS)
    low_ns, high_ns = both(waited, (freed.low_ns, freed.high_ns))
    saving = Range(low=min(low_ns, step_ns), high=min(high_ns, step_ns))
    return Cure(advice + cheaper.advice, None, saving)


def large_bytes(run: RunResults) -> int:
    """Return the bytes of batches that workers hand over, where these matter; else 0."""
    loader, num_bytes = run.start.loader, last_noted(run.notes, BATCH_NOTE, int) or 0
    return num_bytes if loader and loader.num_workers and num_bytes > HANDED_BYTES else 0


def answered_late(run: RunResults, frac: float) -> str:
    """Say that workers are asked for batches while they are busy making others."""
    return (
        f"{percent(frac)} of the wait is this process taking batches from its workers, which are "
        "busy making others meanwhile. To make one takes longer than the wait "
        f"({duration(made_in_ns(run) or 0)} in a worker), so to do without workers is no cure."
    )
