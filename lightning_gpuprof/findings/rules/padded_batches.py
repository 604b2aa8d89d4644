"""Batches are padded further than their longest sample.

## What it measures
`padding_frac`: the share of the positions of five of the first batches after the last one at which
the samples are not all one and the same value: of whole numbers that an embedding is given (samples
by positions), and of vectors by position.

## Why it matters
Padding behind the longest sample of a batch is nobody's: every layer computes it, forward and
backward, attention even for each pair of positions, and a mask or the loss throws it away.

## What to do
Pad each batch to its own longest sample (`pad_sequence`, a tokenizer's `padding="longest"` or
`DataCollatorWithPadding`), or crop what the loader made. Batches of similar lengths (sorted, or in
buckets) have less of it between samples, too. On a GPU that compiles or captures graphs, round up
to a few lengths.

## Thresholds
`MIN_FRAC`: a tenth is what rounding up to a multiple of eight or 16 leaves. The longest sample must
differ from batch to batch, or be less than half: a tail that is always the same may be a column
nobody uses. Vectors need `VECTORS_FRAC`, as zeros at an edge are data, too (pictures by rows).
Operators of some length (`savings/host_work.py`) shrink with the positions: by `LOW_FRAC` of their
share at least, as some do not, and at most as pairs of positions do, with what goes with a cost
beside its own time (docs/adr/0031); so do recurrent layers, whose short operators are as many as
there are positions. Making a batch and handing it over are at most shorter by the same share.
Where layers are given sequences without padding (`pack_padded_sequence`) or of another length,
nothing is said. On a GPU the host's clock gives no low bound. Severity: the common scale
(`findings/grade.py`).
"""

from collections.abc import Iterable

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, host_work
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rules import unused_scores
from lightning_gpuprof.records.function_calls import FunctionNotes, function_notes
from lightning_gpuprof.records.padding import Padding, padding
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percent

ID = "padded-batches"
EFFORT = Effort(Horizon.QUICK, "the collate function pads less", "none where padding is masked")
MIN_FRAC = 0.1
VECTORS_FRAC = 0.25
HALF = 0.5
LOW_FRAC = 0.7
NEAR = 1
"""A language model is given all positions but the last."""
MOSTLY = 0.5
EXPLAINS = ("unused-scores",)
"""The places whose scores nobody uses are the padding, if most of the others are used."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where batches are longer than their longest sample."""
    found, seen = padding(run.notes), function_notes(run.notes)
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    if not found:
        return None
    if seen is None:
        return Abstained(ID, "it was not seen which layers the padding goes through")
    by_width: dict[tuple[int, ...], list[Padding]] = {}
    for one in found:
        by_width.setdefault(one.widths, []).append(one)
    # Beside words, their kinds or a mask may end earlier: what reaches furthest is needed.
    furthest = [min(ones, key=lambda one: one.frac) for ones in by_width.values()]
    counted = [one for one in furthest if _counts(one, seen)]
    if not counted:
        return None
    most = max(counted, key=lambda one: one.frac)
    scores = unused_scores.counted(seen, run.step_ns)
    filled = all(one.kept_frac > MOSTLY * (1 - most.frac) for one in scores)
    return _finding(run, run.step_ns, most, explains=EXPLAINS if filled else ())


def _counts(one: Padding, seen: FunctionNotes) -> bool:
    least = MIN_FRAC if one.kind == "ids" else VECTORS_FRAC
    through = any(abs(width - size) <= NEAR for width in one.widths for size in seen.lengths)
    varies = len(set(one.needed)) > 1 or one.frac >= HALF
    return one.frac >= least and through and varies and not seen.packs


def _finding(run: RunResults, step_ns: int, one: Padding, *, explains: tuple[str, ...]) -> Finding:
    saving = _saving(run, one.frac)
    saving = Range(low=min(saving.low, step_ns), high=min(saving.high, step_ns))
    longest, width = round(sum(one.needed) / len(one.needed)), round(max(one.widths))
    name = f"batch[{one.path}]" if one.path.isdigit() else one.path or "batch"
    place = one.place
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{percent(one.frac)} of the positions of {name} are padding behind the batch's "
        f"longest sample: {width} positions, where the longest has {longest} on average",
        advice="Pad each batch to its own longest sample, and put samples of similar lengths "
        "together. Slice what has a fixed size (learned positions) to the batch's length.",
        evidence={
            "padding_frac": one.frac,
            "width_count": width,
            "longest_count": longest,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=(
            *((Where.at(place),) if place is not None else ()),
            Where(phase=Phase.FORWARD.value, name=name),
        ),
        change="width = max(len(sample) for sample in samples)  # of this batch, when it is made",
        explains=explains,
    )


def _saving(run: RunResults, frac: float) -> Range:
    work, pairs_frac = host_work(run), 1 - (1 - frac) ** 2
    made_ns = round(frac * _spent(run, (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE)))
    if work is None:
        return Range(low=0, high=round(pairs_frac * _spent(run, COMPUTE)) + made_ns)
    loops_ns = work.recurrent_frac * work.overhead_ns
    low, _ = around(round(LOW_FRAC * frac * (work.heavy_ns + loops_ns)))
    _, high = around(round(pairs_frac * (max(work.heavy_ns, work.heavy_most_ns) + loops_ns)))
    return Range(low=0 if run.on_gpu else low, high=min(high, work.compute_ns) + made_ns)


def _spent(run: RunResults, phases: Iterable[Phase]) -> int:
    per_step = (run.per_step(phase) for phase in phases)
    return sum(one.mean_ns for one in per_step if one is not None)
