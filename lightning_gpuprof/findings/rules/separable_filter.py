"""A fixed filter is separable (of rank one), but is applied as a whole window.

## What it measures
`conv2d` and `conv3d` with a window for each channel by itself (`groups`, or one channel) whose
weight has no gradient, and is the product of one vector along each side: in two of the run's first
batches its values are compared with the product of the row and the column through its largest
weight. On a CPU both forms were tried once with the sizes that were seen, forward and, where
gradients go back through them, backward: `whole_ns`, `split_ns`.

## Why it matters
A Gaussian of 11 x 11 weights (structural similarity, SSIM) takes 121 products for each pixel, a
column of 11 and a row of 11 take 22, and the backward pass as many again.

## What to do
Convolve with the column, then with the row: the result is the same but for the last digits. Stride
and padding along a side go with that side's convolution.

## Thresholds
What it saves has no rule of thumb: at 75 sizes the two convolutions took 0.14 to 1.9 times as long
(docs/adr/0031), as torch has fast and slow kernels for both. So the trial decides. The saving is
its difference, `LOW_FRAC` of it to a fifth more, as a loop's caches are warmer than a model's; a
trial once more differed by `AGAIN_FRAC`. At least it is `BETWEEN_NS_PER_BYTE` less for what lies
between the two convolutions: in training new memory may be mapped, which took 0 to 1.6 ns for each
byte more than a trial's loop in most of 14 programs, and 3 to 6 in two. Where nothing is left then,
nothing is said. Windows of less than twice as many weights as their sides are left out: of 3 x 3
two convolutions were slower at 12 of 15 sizes. Not told of is a filter of rank two (a difference of
Gaussians), one in half precision, and one on a GPU: to read it would make the host wait. Severity:
the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes
from lightning_gpuprof.records.windows import SeparableWindow
from lightning_gpuprof.units import duration, percent

ID = "separable-filter"
EFFORT = Effort(
    Horizon.QUICK, "one convolution along each side", "results may differ in the last digits"
)
LOW_FRAC = 0.5
AGAIN_FRAC = 0.1
BETWEEN_NS_PER_BYTE = 1.5
SIDES = ("depth", "column", "row")
CHANGE = "# padding and stride: each along its own side\n"


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each function whose filters are quicker side by side."""
    return tuple(_finding(run, step_ns, one) for one in seen.windows if saved_of(one)[0] > 0)


def saved_of(one: SeparableWindow) -> tuple[int, int]:
    """Return the least and the most that two convolutions save; the least may be below 0."""
    gained_ns = one.whole_ns - one.split_ns
    low = LOW_FRAC * gained_ns - BETWEEN_NS_PER_BYTE * one.between_bytes
    return round(low), around(gained_ns)[1] + round(AGAIN_FRAC * one.split_ns)


def _finding(run: RunResults, step_ns: int, one: SeparableWindow) -> Finding:
    saving = by_host(*saved_of(one), step_ns, unsure=run.on_gpu)
    size, back = " x ".join(map(str, one.size)), " and back" if one.trained else ""
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"A fixed filter of {size} weights is separable: as one window it takes "
        f"{duration(one.whole_ns)} of each step forward{back} "
        f"({percent(one.whole_ns / step_ns)}), side by side {duration(one.split_ns)}, as a trial "
        "showed",
        advice="Each window is the product of one vector along each side, so convolve with one "
        "after the other. Where a library applies it, ask for its separable form, or write these "
        "lines yourself.",
        evidence={
            "whole_ns": one.whole_ns,
            "split_ns": one.split_ns,
            "forward_ns": one.taken_ns,
            "between_bytes": one.between_bytes,
            "calls_count": one.calls,
            "channels_count": one.channels,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=in_forward(one.places),
        change=CHANGE + _lines(one),
    )


def _lines(one: SeparableWindow) -> str:
    """Return a convolution for each side, with the shape of its weight."""
    dims, groups, lines = len(one.size), one.groups, []
    for at, name in enumerate(SIDES[-dims:]):
        if one.size[at] > 1:
            shape = (one.channels, 1, *(n if at == dim else 1 for dim, n in enumerate(one.size)))
            lines.append(f"x = F.conv{dims}d(x, {name}, groups={groups})  # {name}: {shape}")
            groups = one.channels
    return "\n".join(lines)
