"""Attention is written step by step, and its scores go through memory at each of them.

## What it measures
`between_ns`: time per step of what is done to the scores of all pairs of positions between two
products: scaling, masks, casts, softmax, dropout, forward and backward. On a GPU it is the kernels
of the scores' size in a trace with shapes; on a CPU the functions of two of the first batches,
forward. `scores_bytes`: what the scores of one call take.

## Why it matters
Scores grow with the square of the positions. Each of these steps reads and writes all of them, and
what the backward pass needs is kept. A fused kernel computes them piece by piece in fast memory,
and writes none.

## What to do
`F.scaled_dot_product_attention(query, key, value)`: it scales by the root of the last size itself
(`scale=`), takes a mask (`attn_mask=`, `is_causal=`) and dropout (`dropout_p=`).

## Thresholds
`MIN_FRAC`: at which advice begins (`WARNING_FRAC` of `findings/grade.py`). On a GPU all of these
kernels go. A fused backward pass makes the scores once more, a product beside the four that there
were (`AGAIN`), which is the least; at most the products get as fast as the device can compute, as
they write no scores. In steps that the device holds up (`savings/hidden.py`). On a CPU torch's
fused kernel was faster where scores are masked, but not for certain without a mask, nor with
dropout (docs/adr/0031): of those nothing is said, of these between `CPU_LOW` and `CPU_HIGH` times
what is done to the scores forward. Severity: the common scale (`findings/grade.py`).
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.attention import WrittenAttention
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.units import duration, percent, size

ID = "unfused-attention"
EFFORT = Effort(Horizon.QUICK, "one call in place of four", "last digits differ")
MIN_FRAC = WARNING_FRAC
AGAIN = 0.25
CPU_LOW, CPU_HIGH = 0.3, 4.5
SOFTMAX = "aten::_softmax"
PRODUCT = "aten::bmm"
MOVES = ("elementwise", "softmax", "reduction")
EXPLAINS = ("memory-bound-kernels", "dominant-kernel")
CHANGE = """seen = torch.nn.functional.scaled_dot_product_attention(
    query, key, value  # attn_mask=..., is_causal=..., dropout_p=..., scale=...
)  # in place of the two products and the softmax between them"""


class OnDevice(NamedTuple):
    """Kernels of attention in a trace, all steps."""

    between_ns: int
    product_ns: int
    computing_ns: float
    """What the products take at the device's peak."""
    score_bytes: int


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where scores go through memory."""
    facts, seen = trace_facts(run), function_notes(run.notes)
    written = seen.attention if seen is not None else None
    if run.step_ns is None or (facts is None and written is None):
        return Abstained(ID, "no forward pass was looked at, and no trace was analysed")
    if written == () or (seen is not None and seen.unread is not None):
        return None  # a library's own, or told of by the weights that nobody reads
    if facts is not None and facts.on_device:
        return _on_device(run, run.step_ns, facts, written or ())
    return None if run.on_gpu else _on_cpu(run.step_ns, written or ())


def _on_device(
    run: RunResults, step_ns: int, facts: TraceFacts, written: Sequence[WrittenAttention]
) -> Finding | None:
    found = attention_kernels(facts)
    between_ns = found.between_ns / facts.steps
    if between_ns < MIN_FRAC * step_ns:
        return None
    product_ns, computing_ns = found.product_ns / facts.steps, found.computing_ns / facts.steps
    least = max(0.0, between_ns - AGAIN * product_ns)
    most = between_ns + max(0.0, product_ns - computing_ns)
    saving = Range(*faster_kernels(run, step_ns, least, most))
    if not saving.high:
        return None
    evidence = {"product_ns": round(product_ns), "scores_bytes": found.score_bytes}
    # Kernels of forward and backward: in no one phase.
    return _finding(step_ns, round(between_ns), saving, evidence, written, on_device=True)


def _on_cpu(step_ns: int, written: Sequence[WrittenAttention]) -> Finding | None:
    gain = [one for one in written if one.masked and not one.drops and one.trained]
    between_ns = sum(one.between_ns for one in gain)
    saving = Range(low=round(CPU_LOW * between_ns), high=min(step_ns, round(CPU_HIGH * between_ns)))
    if saving.middle < MIN_FRAC * step_ns:
        return None
    evidence = {
        "product_ns": sum(one.product_ns for one in gain),
        "scores_bytes": max((one.score_bytes for one in gain), default=0),
    }
    return _finding(step_ns, between_ns, saving, evidence, gain, on_device=False)


def _finding(
    step_ns: int,
    between_ns: int,
    saving: Range,
    evidence: dict[str, int],
    written: Sequence[WrittenAttention],
    *,
    on_device: bool,
) -> Finding:
    lines = dict.fromkeys(at for one in written for at in one.places)
    phase = None if on_device else "forward"
    places = tuple(Where.at(at, phase=phase) for at in lines)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Attention is written out: scaling, softmax and casts of its scores take "
        f"{duration(between_ns)} of each step ({percent(between_ns / step_ns)}), "
        f"{size(evidence['scores_bytes'])} of scores at a time",
        advice="Use F.scaled_dot_product_attention in place of the product, the softmax and the "
        "product: it writes no scores to memory. Masks and dropout are arguments of it.",
        evidence={"between_ns": between_ns, **evidence, "step_ns": step_ns},
        saving_ns=saving,
        confidence=(0.9 if written else 0.7) if on_device else 0.6,
        where=places or (Where(name=SOFTMAX),),
        change=CHANGE,
        explains=EXPLAINS if on_device else (),
    )


def attention_kernels(facts: TraceFacts) -> OnDevice:
    """Sum up the kernels on scores: what a softmax is of that a product of matrices takes, too."""
    rows = [row for row in facts.rows("roofline") if row.get("dims")]
    products = [row for row in rows if row["name"] == PRODUCT]
    multiplied = {_matrices(row["dims"], 0) for row in products}
    normed = [_matrices(row["dims"], 0) for row in rows if row["name"] == SOFTMAX]
    scores = {shape for shape in normed if shape is not None and shape in multiplied}
    between = [
        row for row in rows if row.get("category") in MOVES and _matrices(row["dims"], 0) in scores
    ]
    ours = [row for row in products if _scores_of(row["dims"]) & scores]
    softmax = [row for row in between if row["name"] == SOFTMAX]
    return OnDevice(
        between_ns=sum(row.get("total_ns") or 0 for row in between),
        product_ns=sum(row.get("total_ns") or 0 for row in ours),
        computing_ns=sum(map(_computing_ns, ours)),
        score_bytes=max((row.get("num_bytes") or 0 for row in softmax), default=0) // 2,
    )


def _matrices(dims: Sequence[Any], at: int) -> tuple[int, int, int] | None:
    """Return an argument's shape as so many matrices; None of fewer than two dimensions more."""
    shape = dims[at] if at < len(dims) else None
    if not isinstance(shape, list | tuple) or len(shape) < 3:
        return None
    return prod(shape[:-2]), shape[-2], shape[-1]


def _scores_of(dims: Sequence[Any]) -> set[tuple[int, int, int]]:
    """Return what may be scores in a product: either factor, as it is or transposed, or its result.

    >>> found = _scores_of([[2, 3, 4], [2, 4, 9]])
    >>> (2, 4, 3) in found, (2, 3, 9) in found
    (True, True)
    """
    first, second = _matrices(dims, 0), _matrices(dims, 1)
    if first is None or second is None:
        return set()
    every = {first, second, (first[0], first[1], second[2])}
    return every | {(number, columns, rows) for number, rows, columns in every}


def _computing_ns(row: Mapping[str, Any]) -> float:
    """Return what a product takes at the device's peak; all that it took where that is unknown."""
    taken, peak, work = row.get("total_ns") or 0, row.get("peak_flop_per_s"), row.get("flop_count")
    if not peak or not work:
        return float(taken)
    return float(min(taken, 1e9 * work * (row.get("count") or 0) / peak))
