"""The training DataLoader: what the wait for data consists of, and what its workers do."""

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
    """Shares of the wait for data, over the steady steps in which no epoch and no worker starts.

    None if not measured, as with an unusual loader; `workers_frac` also without workers or with
    pinned memory.
    """

    sampler_frac: float | None
    """The training process ran the sampler."""
    workers_frac: float | None
    """It waited for a worker, as none had a batch ready."""

    @property
    def receiving_frac(self) -> float | None:
        """The rest, if there are workers: the training process received what they had sent."""
        if self.workers_frac is None:
            return None
        return max(0.0, 1.0 - self.workers_frac - (self.sampler_frac or 0.0))


def loader_wait(session: Session, steady: Mask) -> LoaderWait:
    """Return the shares of the measured parts of the wait for data."""
    wait = session.phase_ns(Phase.DATA_WAIT)
    chosen = steady
    if len(steady):
        chosen = steady & ((step_flags(session) & int(StepFlag.EPOCH_START)) == 0)
    if STARTED in session.columns:
        chosen = chosen & (session.columns[STARTED] == 0)
    whole_ns = 0 if wait is None else int(wait[chosen].sum())

    def frac(part: str) -> float | None:
        column: Int64 | None = session.columns.get(f"part/{Phase.DATA_WAIT.value}/{part}")
        return None if column is None or not whole_ns else float(column[chosen].sum() / whole_ns)

    return LoaderWait(frac(SAMPLER), frac(WORKERS))


@dataclass(frozen=True, kw_only=True)
class LoaderResults:
    """What was measured of the training DataLoader."""

    wait: LoaderWait = LoaderWait(None, None)
    workers: WorkerLines | None = None
    """Samples of its worker processes; None if none were sampled."""
    batch_bytes: int | None = None
    """Bytes of the first batch's tensors."""


def loader_results(session: Session, steady: Mask) -> LoaderResults:
    """Collect what was measured of the training DataLoader."""
    batch = session.last(BatchBytes)
    return LoaderResults(
        wait=loader_wait(session, steady),
        workers=session.last(WorkerLines),
        batch_bytes=None if batch is None else batch.num_bytes,
    )
