"""What the beginning of an epoch costs in waiting for data, above any other step."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.distribution import median
from lightning_gpuprof.analysis.run.every_step import between_epochs, unmarked_spans
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import BATCH_WORK, WORKERS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag

REMADE = f"{Phase.DATA_WAIT.value}/train_dataloader"
"""The part of a wait in which the module makes its loader anew."""
_WORKERS = f"{Phase.DATA_WAIT.value}/{WORKERS}"


@dataclass(frozen=True)
class EpochStarts:
    """Waits for the first batch of an epoch: data workers start, the first batches are made."""

    count: int
    """Epochs begun."""
    again_ns: int
    """What the epochs after the first cost: what their first steps waited above the median of the
    others, with the wait between epochs; a first start there always is. Without `remade_ns`."""
    remade_ns: int
    """What the module's `train_dataloader` took after the first epoch began, in total."""
    steady_mean_ns: int
    """How much of the mean wait per steady step is such excess."""
    slowed_ns: int
    """What the same first steps, without the very first, computed above the usual, in total: after
    a process was started, each page that is written to for the first time is copied."""
    workers_ns: int | None = None
    """How much of `again_ns` is waiting for worker processes; None where that is not measured."""


def epoch_starts(session: Session, steady: Mask) -> EpochStarts | None:
    """Measure the cost of epoch starts, or return None where no wait was measured."""
    wait = session.phase_ns(Phase.DATA_WAIT)
    if wait is None:
        return None
    first = (step_flags(session) & StepFlag.EPOCH_START) != 0
    if not first.any() or first.all():
        return None
    usual = median(wait[~first])
    excess = (wait - usual).clip(min=0) * first
    began_ns = int(session.columns["start_ns"][first][0])
    spans = [span for span in between_epochs(session) if span.start_ns >= began_ns]
    unmarked = sum(span.steps for span in unmarked_spans(session))
    between = sum(span.phase_ns.get(Phase.DATA_WAIT.value, 0) for span in spans)
    remade = sum(span.part_ns.get(REMADE, 0) for span in spans)
    again_ns = int(excess[first][1:].sum()) + between - remade
    workers = session.columns.get(f"part/{_WORKERS}")
    waited = 0 if workers is None else int(workers[first][1:].sum())
    waited += sum(span.part_ns.get(_WORKERS, 0) for span in spans)
    return EpochStarts(
        count=int(first.sum()),
        again_ns=again_ns,
        remade_ns=remade,
        steady_mean_ns=round(int(excess[steady].sum()) / (int(steady.sum()) + unmarked)),
        slowed_ns=_slowed(session, first),
        workers_ns=None if workers is None else min(again_ns, waited),
    )


def _slowed(session: Session, first: Mask) -> int:
    columns = list(session.phases_ns(BATCH_WORK).values())
    if not columns:
        return 0
    work = np.sum(columns, axis=0)
    return int((work[first][1:] - median(work[~first])).clip(min=0).sum())
