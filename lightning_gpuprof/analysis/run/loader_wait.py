"""The parts of the wait for data."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.epochs import STARTED
from lightning_gpuprof.analysis.run.steady import step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.facts import BatchBytes
from lightning_gpuprof.records.lines import WorkerLines
from lightning_gpuprof.records.phases import SAMPLER, WORKERS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag


@dataclass(frozen=True)
class LoaderWait:
    """Shares of the wait for data in the steady steps that begin no epoch, and start no workers.

    None where not measured: an unusual loader, or with `workers_frac` one without workers or
    with pinned memory.
    """

    sampler_frac: float | None
    """The sampler ran, in the training process."""
    workers_frac: float | None
    """No worker had a batch ready."""

    @property
    def receiving_frac(self) -> float | None:
        """The rest with workers: the training process took over what they sent."""
        if self.workers_frac is None:
            return None
        return max(0.0, 1.0 - self.workers_frac - (self.sampler_frac or 0.0))


def loader_wait(session: Session, steady: Mask) -> LoaderWait:
    """Split the wait for data by its measured parts."""
    wait = session.phase_ns(Phase.DATA_WAIT)
    inside = steady
    if len(steady):
        inside = steady & ((step_flags(session) & int(StepFlag.EPOCH_START)) == 0)
    if STARTED in session.columns:
        inside = inside & (session.columns[STARTED] == 0)
    whole = 0 if wait is None else int(wait[inside].sum())

    def frac(part: str) -> float | None:
        column: Int64 | None = session.columns.get(f"part/{Phase.DATA_WAIT.value}/{part}")
        return None if column is None or not whole else float(column[inside].sum() / whole)

    return LoaderWait(frac(SAMPLER), frac(WORKERS))


@dataclass(frozen=True, kw_only=True)
class LoaderResults:
    """What is known of the training DataLoader."""

    wait: LoaderWait = LoaderWait(None, None)
    workers: WorkerLines | None = None
    """Samples of its worker processes; None where none were taken."""
    batch_bytes: int | None = None
    """Bytes of the first batch's tensors."""


def loader_results(session: Session, steady: Mask) -> LoaderResults:
    """Collect what was recorded about the training DataLoader."""
    batch = session.last(BatchBytes)
    return LoaderResults(
        wait=loader_wait(session, steady),
        workers=session.last(WorkerLines),
        batch_bytes=None if batch is None else batch.num_bytes,
    )
