"""What a fit's validations consist of: the start of their loader, their batches, and the rest."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.every_step import EveryStep, parts_in_all
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import FETCHES, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Loader


@dataclass(frozen=True)
class Validations:
    """The validations among all steps, and between epochs; times are means of one of them."""

    count: int
    each_ns: int
    start_ns: int
    """Making the loader's iterator and its workers; 0 in files from before it was measured."""
    first_batch_ns: int
    next_batches_ns: int
    """Waiting for the first batch, and for the others."""
    hooks_ns: int
    """Callbacks' and the module's hooks that have a name of their own."""
    loader: Loader | None
    """Their one loader's settings; None of several, or of another kind."""

    @property
    def batches_ns(self) -> int:
        """What it does with its batches, once it has them."""
        fetched_ns = self.start_ns + self.first_batch_ns + self.next_batches_ns
        return self.each_ns - fetched_ns - self.hooks_ns

    @property
    def starts_workers(self) -> bool:
        """Whether each of them starts worker processes of its own."""
        loader = self.loader
        return loader is not None and bool(loader.num_workers) and not loader.persistent_workers

    @property
    def start_again_ns(self) -> tuple[int, int]:
        """How much of the start, and of the wait for the first batch, kept workers save.

        At most all of it. At least the start itself, and of the wait what it is longer than the
        making of one batch, where there are batches enough to show that: two from each worker. Of
        an iterable dataset Lightning fetches the first batch as it makes the iterator.
        """
        workers = self.loader.num_workers if self.loader else None
        batches = self.loader.length if self.loader else None
        whole_ns = self.start_ns + self.first_batch_ns
        ahead = self.loader is not None and self.loader.dataset_kind == "iterable"
        most_made_ns = whole_ns if ahead else self.first_batch_ns
        if not workers or not batches or batches < 2 * workers:
            return whole_ns - most_made_ns, whole_ns
        made_ns = workers * (self.each_ns - whole_ns) // batches
        return whole_ns - min(most_made_ns, made_ns), whole_ns


def validations(session: Session, steady: Mask, every: EveryStep | None) -> Validations | None:
    """Return what validations took; None where there was none."""
    count = 0 if every is None else every.flagged.get("validation", 0)
    if every is None or not count:
        return None
    taken = parts_in_all(session, steady, Phase.VALIDATION)
    start_ns, first_ns, next_ns = (taken.pop(part, 0) for part in FETCHES)
    return Validations(
        count=count,
        each_ns=every.phase_ns.get(Phase.VALIDATION, 0) // count,
        start_ns=start_ns // count,
        first_batch_ns=first_ns // count,
        next_batches_ns=next_ns // count,
        hooks_ns=taken.total() // count,
        loader=session.start.validation_loader,
    )
