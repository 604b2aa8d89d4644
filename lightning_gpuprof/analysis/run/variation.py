"""How steps differ from one another over a session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightning_gpuprof.analysis.run.behind_window import BehindWindow, behind_window
from lightning_gpuprof.analysis.run.growth import Growth, growth, phase_growth
from lightning_gpuprof.analysis.run.outliers import Spikes, spikes, step_noise_ns
from lightning_gpuprof.analysis.run.pace import PaceChange, pace_change
from lightning_gpuprof.analysis.run.phase_split import Part, PhaseStats
from lightning_gpuprof.analysis.run.slowest import SlowStep, slowest_steps
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session


@dataclass(frozen=True, kw_only=True)
class Variation:
    """Noise, spikes, growth, a lasting change and the slowest steps."""

    noise_ns: int | None = None
    """The 95% bound of the difference between the mean steps of two equal runs; None with too few
    steps."""
    spikes: Spikes | None = None
    growing: Mapping[Phase, Growth] = field(default_factory=dict)
    """Phases that take longer and longer."""
    batches: Growth | None = None
    """How batches hold more and more numbers; None if they do not, or if that is unknown."""
    pace: PaceChange | None = None
    """How the step time changes for good; None if it does not."""
    behind_window: BehindWindow | None = None
    """How much slower a profiler window left the run; None if it did not."""
    slowest: tuple[SlowStep, ...] = ()
    """The slowest steps, the longest first."""


def step_variation(
    session: Session,
    steady: Mask,
    phases: Mapping[Phase, PhaseStats],
    parts: Sequence[Part],
    *,
    host_bound: bool = False,
) -> Variation:
    """Measure how the steps of a session differ.

    `host_bound` says that the host never waits for the device, as the device's clock shows.
    """
    pace = pace_change(session, steady)
    return Variation(
        noise_ns=step_noise_ns(session, steady),
        spikes=spikes(session, steady, paced=pace is not None),
        growing=phase_growth(session, steady),
        batches=_batch_growth(session, steady),
        pace=pace,
        behind_window=behind_window(session, host_bound=host_bound),
        slowest=slowest_steps(session, steady, phases, parts),
    )


def _batch_growth(session: Session, steady: Mask) -> Growth | None:
    numbers = session.columns.get("numbers")
    return None if numbers is None else growth(numbers[steady])
