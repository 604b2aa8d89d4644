"""What the making of batches would take if their samples were cheaper, by what is seen of it."""

import re
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.records.phases import Phase

MIN_SAMPLES = 10
MOSTLY = 0.5
_RANDOM = re.compile(r"\b(random|rng|rand(n|int|perm)?(_like)?|Random[A-Z]\w*|\w*[Aa]ugment\w*)\b")
"""Numbers drawn by Python, numpy or torch, and the usual names of what draws them."""
LEFT_FRAC = 0.1
"""May stay of work that is done once, as of a callback's."""
SAMPLE_NS = 6_000
"""A sample that is only indexed and stacked takes about this: no cheaper ones are to be had, only
whole batches at once (docs/adr/0031)."""


@dataclass(frozen=True)
class OwnCode:
    """The share of the making of batches that was at lines of the user's own.

    At least `low_frac`; `function` is the one seen most.
    """

    low_frac: float
    function: str


def own_code(run: RunResults) -> OwnCode | None:
    """Return what samples show of whoever makes the batches, here or in workers; None of too few.

    None as well where most of it is library code.
    """
    lines = batch_lines(run)
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    seen = [] if lines is None else lines.of(Phase.DATA_WAIT)
    count = sum(one.count for one in seen)
    if lines is None or whole < MIN_SAMPLES or count < MOSTLY * whole:
        return None
    functions: dict[str, int] = {}
    for one in seen:
        functions[one.named] = functions.get(one.named, 0) + one.count
    low, _ = lines.interval(count, Phase.DATA_WAIT)
    return OwnCode(low, max(functions, key=lambda name: functions[name]))


def draws(run: RunResults) -> float:
    """Return the share of the program's lines, where batches are made, in functions that draw.

    That is, where a line of the function was seen that draws random numbers.
    """
    lines = batch_lines(run)
    seen = [] if lines is None else lines.of(Phase.DATA_WAIT)
    at_random = {
        (one.file, one.function)
        for one in seen
        if _RANDOM.search(one.source) or _RANDOM.match(one.callee or "")
    }
    count = sum(one.count for one in seen if (one.file, one.function) in at_random)
    return count / max(1, sum(one.count for one in seen))


def cheaper_batches(run: RunResults, step_ns: int, lost: Exposed) -> tuple[int, int]:
    """Return the least and the most that cheaper samples save of a wait, per step.

    The most is all that goes with the wait. The least, where the user's own code was seen to be
    most of it, is that code done once, with `LEFT_FRAC` of it left. Code that was not seen, or
    draws at random and must be done each time, is only taken to become half as long.

    Without workers no less stays than cheap samples take: what the library does with each is the
    part of the wait that is not the user's code, so it is not taken off that code again. The least
    is 0 where the number of samples is not known. Workers that are waited for work the whole step,
    or as much of it as was seen: of that such a share goes, and with it as much of the wait.
    """
    loader, own = run.start.loader, own_code(run)
    gone_frac = 0.5
    if own is not None:
        gone_frac = own.low_frac * (0.5 if draws(run) >= MOSTLY else 1 - LEFT_FRAC)
    if loader is not None and loader.num_workers:
        seen = run.worker_lines
        busy_frac = seen.work / seen.whole if seen and own else 1.0
        return min(lost.low_ns, round(gone_frac * busy_frac * step_ns)), lost.high_ns
    if run.batch_size is None:
        return 0, lost.high_ns
    cheap_ns = round(SAMPLE_NS * run.batch_size)
    low_ns = min(round(gone_frac * lost.low_ns), lost.low_ns - cheap_ns)
    return max(0, low_ns), lost.high_ns
