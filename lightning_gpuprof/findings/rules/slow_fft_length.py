"""Fourier transforms have a length with a large prime factor, and take several times as long.

## What it measures
`operators_ns`: time per step of transforms of such lengths, from a trace that recorded shapes. On a
CPU alone: a GPU's library has other lengths that it is slow at.

## Why it matters
An FFT is fast by dividing its length into small factors: 6001 = 17 x 353 has none.

## What to do
Pad what is transformed to a length of small factors, and cut the result off. A convolution by FFT
stays the same with more zeros.

## Thresholds
`WARNING_FRAC` of `findings/grade.py`, as what the other length takes is known: `MOST_FACTOR`,
`SAVED` and `SAVED_OF_LARGE` are measured (docs/adr/0031). Nothing is the least saving where the
program does not pad by itself, and may need just that length; else a fifth below what a tight loop
saved. Severity: the common scale (`findings/grade.py`).
"""

from collections.abc import Iterable

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import WARNING_FRAC, by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.findings.no_trace import OPERATORS, no_trace
from lightning_gpuprof.findings.places import in_forward, written_as
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-fft-length"
EFFORT = Effort(
    Horizon.QUICK, "one argument of the transform", "a spectrum's frequencies lie closer"
)
MOST_FACTOR = 13
SMALL = (2, 3, 5, 7)
TRANSFORMED = r"fft|stft|spectrogram"
LARGE_FACTOR = 40
SAVED, SAVED_OF_LARGE = (0.2, 0.86), (0.75, 0.94)
"""Shares of a transform's time, by the largest factor of its length."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where lengths that are hard to transform take time."""
    facts = trace_facts(run)
    if facts is None or not run.step_ns:
        return no_trace(ID, OPERATORS)
    per_step = facts.host_scale / facts.steps
    hard = [row for row in facts.rows("transforms") if any(map(is_hard, row["lengths"]))]
    taken_ns = round(sum(row["total_ns"] for row in hard) * per_step)
    if run.on_gpu or taken_ns < WARNING_FRAC * run.step_ns:
        return None
    worst = max(hard, key=lambda row: row["total_ns"])
    length = next(one for one in worst["lengths"] if is_hard(one))
    sure = [saved(row["lengths"])[0] * row["total_ns"] for row in hard if row["padded"]]
    most = [saved(row["lengths"])[1] * row["total_ns"] for row in hard]
    low, _ = around(round(sum(sure) * per_step))
    high = round(sum(most) * per_step)
    saving = by_host(low, high, run.step_ns, unsure=False)
    better = next_easy(length)
    product = " x ".join(map(str, factors(length)))
    known = f"{length} = {product}" if product != str(length) else f"{length}, a prime"
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"FFTs of length {known} take {duration(taken_ns)} of each step "
        f"({percent(taken_ns / run.step_ns)}): a length of small factors is faster",
        advice=f"Pad to {better} = {' x '.join(map(str, factors(better)))} (n={better}), and cut "
        f"the result off as before: a convolution by FFT stays the same with more zeros. Where the "
        "spectrum itself is wanted, its frequencies lie a little closer: cut or pad the data.",
        evidence={
            "operators_ns": taken_ns,
            "length_count": length,
            "largest_factor_count": factors(length)[-1],
            "better_length_count": better,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.7,
        where=in_forward(written_as(run, Phase.FORWARD, TRANSFORMED))
        or (Where(name="aten::_fft"),),
        change=f"n = {better}  # torch.fft.rfft(x, n=n), torch.fft.irfft(spectrum, n=n)",
    )


def factors(length: int) -> list[int]:
    """Return a length's prime factors, rising.

    >>> factors(6001), factors(1)
    ([17, 353], [1])
    """
    found, rest, factor = [], length, 2
    while factor * factor <= rest:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 1
    return [*found, rest] if rest > 1 or not found else found


def is_hard(length: int) -> bool:
    """Tell whether a length has a large prime factor."""
    return factors(length)[-1] > MOST_FACTOR


def saved(lengths: Iterable[int]) -> tuple[float, float]:
    """Return which share of a transform's time the next lengths of small factors save.

    >>> saved([6001]), saved([64, 34])
    ((0.75, 0.94), (0.2, 0.86))
    """
    return SAVED_OF_LARGE if max(factors(one)[-1] for one in lengths) > LARGE_FACTOR else SAVED


def next_easy(length: int) -> int:
    """Return the next length of small factors alone.

    >>> next_easy(6001)
    6048
    """
    while _without_small(length) != 1:
        length += 1
    return length


def _without_small(length: int) -> int:
    for factor in SMALL:
        while length % factor == 0:
            length //= factor
    return length
