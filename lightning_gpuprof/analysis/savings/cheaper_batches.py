"""How much of the wait for data cheaper samples save."""

import re
from collections import Counter
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import batch_lines
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.analysis.savings.pipeline import Pipeline
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase

MIN_SAMPLES = 10
"""Fewer samples of batch making do not show whose code it is."""
MOSTLY = 0.5
LEAST_FRAC = 0.2
"""From this share of making batches on, the user's own code is what to change first. It is the
lower bound of what the samples show, so that few samples need a large share."""
_RANDOM = re.compile(r"\b(random|rng|rand(n|int|perm)?(_like)?|Random[A-Z]\w*|\w*[Aa]ugment\w*)\b")
"""Names that draw random numbers."""
DATASET_METHODS = ("__getitem__", "__getitems__", "__iter__", "__next__")
"""Methods of a dataset that a loader calls. Their class is unknown before Python 3.11."""
LEFT_FRAC = 0.1
"""The share that may remain of work that is done once, instead of in every epoch."""
SAMPLE_NS = 6_000
"""Indexing and stacking alone take about this long per sample (docs/adr/0031)."""


@dataclass(frozen=True)
class OwnCode:
    """The user's own code in making batches."""

    low_frac: float
    """Its least share of the time for making batches."""
    frac: float
    """Its share of the samples."""
    function: str
    """Its function with the most samples."""
    entry: str | None
    """The function that the loader called with the most samples in or below it, such as
    `Corpus.__getitem__` or a collate function; None if unknown."""
    entry_frac: float
    """The share of that function in the time for making batches."""

    @property
    def name(self) -> str:
        """What to look at: the function that the loader called, and the one below it."""
        entry = self.entry
        if entry is None or entry.rpartition(".")[2] == self.function:
            return entry or self.function
        return f"{entry} and, in it, {self.function}"


def own_code(run: RunResults) -> OwnCode | None:
    """Return the user's own code in making batches; None if it surely takes no large share."""
    lines = batch_lines(run)
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    own = [line for line in lines.of(Phase.DATA_WAIT) if not line.in_package] if lines else []
    count = sum(line.count for line in own)
    if lines is None or whole < MIN_SAMPLES or not own:
        return None
    low_frac = lines.interval(own, Phase.DATA_WAIT)[0]
    if low_frac < LEAST_FRAC:
        return None
    functions, entries = Counter[str](), Counter[str]()
    for line in own:
        functions[line.named] += line.count
        if (entry := _entry(run, line)) is not None:
            entries[entry] += line.count
    function = functions.most_common(1)[0][0]
    entry, entry_count = next(iter(entries.most_common(1)), (None, 0))
    return OwnCode(low_frac, count / whole, function, entry, entry_count / whole)


def _entry(run: RunResults, line: LineCount) -> str | None:
    """Return the function that the loader called, with its class if it is one of the dataset's."""
    dataset = run.start.loader.dataset if run.start.loader else None
    entry = line.entry or (line.function if line.function in DATASET_METHODS else None)
    return f"{dataset}.{entry}" if dataset and entry in DATASET_METHODS else entry


def draws(run: RunResults) -> float:
    """Return the share of batch making that lies in functions which draw random numbers."""
    batch = batch_lines(run)
    lines = [] if batch is None else batch.of(Phase.DATA_WAIT)
    random_functions = {
        (line.file, line.function)
        for line in lines
        if _RANDOM.search(line.source) or _RANDOM.match(line.callee or "")
    }
    count = sum(line.count for line in lines if (line.file, line.function) in random_functions)
    return count / max(1, sum(line.count for line in lines))


def validation_ns(run: RunResults) -> int:
    """Return validation's wait per step for batches that the same lines make; 0 if others do."""
    validations, lines = run.epochs.validations, run.lines
    if validations is None or lines is None or run.every is None or run.loader.workers is not None:
        return 0
    places = {(line.file, line.line) for line in lines.of(Phase.DATA_WAIT)}
    if not any((line.file, line.line) in places for line in lines.of(Phase.VALIDATION)):
        return 0
    wait_ns = validations.first_batch_ns + validations.next_batches_ns
    return wait_ns * validations.count // run.every.steps


def cheaper_batches(run: RunResults, step_ns: int, wait_ns: int, lost: Exposed) -> tuple[int, int]:
    """Return the least and the most that cheaper samples save of a wait per step.

    At most the whole wait goes. At least the user's own code goes, if it makes up most of the wait:
    all but `LEFT_FRAC` of it if it can be done once, half of it if it draws random numbers. Without
    samples of such code, half of the wait is assumed to go (docs/adr/0031).
    """
    loader, once = run.start.loader, can_be_done_once(run)
    saved_frac = saved_share(run)
    if loader is not None and loader.num_workers:
        workers = run.loader.workers
        busy_frac = workers.work / workers.whole if workers and own_code(run) else 1.0
        return min(lost.low_ns, round(saved_frac * busy_frac * step_ns)), lost.high_ns
    if run.batch_size is None:
        return 0, lost.high_ns
    # The time of code that is done once is known by its share of the samples: all of it goes.
    sure_ns = wait_ns if once and lost.basis == "cpu" else lost.low_ns
    low_ns = min(round(saved_frac * sure_ns), sure_ns - round(SAMPLE_NS * run.batch_size))
    validation_wait_ns = validation_ns(run)
    low_ns = max(0, low_ns) + round(saved_frac * validation_wait_ns)
    return low_ns, lost.high_ns + validation_wait_ns


def cheaper_in_workers(run: RunResults, pipeline: Pipeline) -> tuple[int, int]:
    """Return the least and the most that cheaper samples save of a step with workers.

    The same share of the work goes as in `cheaper_batches`; what that saves of a step follows from
    the demands of the pipeline, and may exceed the wait where processes share busy cores.
    """
    kept_ns = SAMPLE_NS * (run.batch_size or 0.0)
    made_ns = pipeline.make_ns + pipeline.storage_ns
    most_frac = 1 - min(1.0, kept_ns / made_ns) if made_ns else 0.0
    least_frac = min(saved_share(run), most_frac)
    low_step_ns, high_step_ns = pipeline.step_without(least_frac, most_frac)
    return round(pipeline.step_ns - high_step_ns), round(pipeline.step_ns - low_step_ns)


def can_be_done_once(run: RunResults) -> bool:
    """Return whether most of making batches is the user's own code that draws no random numbers."""
    return own_code(run) is not None and draws(run) < MOSTLY


def saved_share(run: RunResults) -> float:
    """Return the share of making batches that goes at least if samples are made cheaper."""
    own = own_code(run)
    if own is None:
        return 0.5
    return own.low_frac * (1 - LEFT_FRAC if can_be_done_once(run) else 0.5)
