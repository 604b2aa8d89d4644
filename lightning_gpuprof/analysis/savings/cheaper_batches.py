"""What batches would take if their samples were cheaper, or validation's batches larger."""

import re
from collections import Counter
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.records.phases import Phase

MIN_SAMPLES = 10
MOSTLY = 0.5
_RANDOM = re.compile(r"\b(random|rng|rand(n|int|perm)?(_like)?|Random[A-Z]\w*|\w*[Aa]ugment\w*)\b")
"""Names of what draws random numbers."""
LEFT_FRAC = 0.1
"""May stay of work that is done once."""
SAMPLE_NS = 6_000
"""A sample that is only indexed and stacked takes about this long (docs/adr/0031)."""


@dataclass(frozen=True)
class OwnCode:
    """The least share of batch making at the user's own lines, and the function seen most."""

    low_frac: float
    function: str


def own_code(run: RunResults) -> OwnCode | None:
    """Return the user's part in making batches; None where too little was seen, or of it."""
    lines = batch_lines(run)
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    seen = [one for one in lines.of(Phase.DATA_WAIT) if not one.in_package] if lines else []
    count = sum(one.count for one in seen)
    if lines is None or whole < MIN_SAMPLES or count < MOSTLY * whole:
        return None
    functions = Counter[str]()
    for one in seen:
        functions[one.named] += one.count
    return OwnCode(lines.interval(seen, Phase.DATA_WAIT)[0], functions.most_common(1)[0][0])


def draws(run: RunResults) -> float:
    """Return the share of the batch-making lines that lie in functions which draw at random."""
    lines = batch_lines(run)
    seen = [] if lines is None else lines.of(Phase.DATA_WAIT)
    at_random = {
        (one.file, one.function)
        for one in seen
        if _RANDOM.search(one.source) or _RANDOM.match(one.callee or "")
    }
    count = sum(one.count for one in seen if (one.file, one.function) in at_random)
    return count / max(1, sum(one.count for one in seen))


def validation_ns(run: RunResults) -> int:
    """Return what validation waits per step for batches that are made at the same lines."""
    seen, lines = run.epochs.validations, run.lines
    if seen is None or lines is None or run.every is None or run.loader.workers is not None:
        return 0
    at = {(one.file, one.line) for one in lines.of(Phase.DATA_WAIT)}
    if not any((one.file, one.line) in at for one in lines.of(Phase.VALIDATION)):
        return 0
    return (seen.first_batch_ns + seen.next_batches_ns) * seen.count // run.every.steps


def cheaper_batches(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> tuple[int, int]:
    """Return the least and the most that cheaper samples save of a wait, per step.

    At most all of it. At least, the user's code done once, where it was seen to be most of it; code
    that was not seen, or that draws at random, becomes half as long (docs/adr/0031).
    """
    loader, own = run.start.loader, own_code(run)
    gone_frac, once = 0.5, own is not None and draws(run) < MOSTLY
    if own is not None:
        gone_frac = own.low_frac * (1 - LEFT_FRAC if once else 0.5)
    if loader is not None and loader.num_workers:
        seen = run.loader.workers
        busy_frac = seen.work / seen.whole if seen and own else 1.0
        return min(lost.low_ns, round(gone_frac * busy_frac * step_ns)), lost.high_ns
    if run.batch_size is None:
        return 0, lost.high_ns
    # What is done once is known by its share of the samples: all that it takes goes.
    sure_ns = wait_ns if once and lost.basis == "cpu" else lost.low_ns
    low_ns = min(round(gone_frac * sure_ns), sure_ns - round(SAMPLE_NS * run.batch_size))
    also_ns = validation_ns(run)
    return max(0, low_ns) + round(gone_frac * also_ns), lost.high_ns + also_ns
