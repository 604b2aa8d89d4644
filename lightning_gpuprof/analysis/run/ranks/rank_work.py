"""What a rank does itself between meetings with the others: its phases without waits for them.

Ranks that train together take equally long from meeting to meeting. What a rank waits less than the
others, it works longer than they, and in some phase.
"""

from collections.abc import Mapping, Sequence

from lightning_gpuprof.analysis.run.ranks.rank_steps import RankSteps, Table
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import (
    COLLECTIVES,
    EXCHANGE,
    OWN_CALLBACKS,
    SELF_LOG,
    STOP_CHECK,
    Phase,
)
from lightning_gpuprof.records.reader import Session

AFTER = (
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
    Phase.CALLBACKS,
    Phase.LOGGING,
    Phase.CHECKPOINT,
    Phase.VALIDATION,
    Phase.OTHER,
)
"""Phases after the exchange: they make a rank late in the step that follows."""
EXCHANGED = f"part/{Phase.BACKWARD.value}/{EXCHANGE}"
MEETINGS = {
    Phase.LOGGING: f"part/{Phase.LOGGING.value}/{SELF_LOG}",
    Phase.OTHER: f"part/{Phase.OTHER.value}/{STOP_CHECK}",
}
"""Parts in which the host waits for other ranks, by the phase that they are parts of."""


class RankWork:
    """The time of phases by rank and step, without waits for other ranks and this package's own.

    Args:
        steps: The steps to compare.
        exchanges: The exchange of gradients in every step, by rank.
        timed: Whether the exchange was timed by itself. If not, it is the whole backward pass, and
            what a rank does itself in it is unknown.
        on_device: Whether the device's clock says which rank waits.
    """

    def __init__(
        self, steps: RankSteps, exchanges: Sequence[Int64], *, timed: bool, on_device: bool
    ) -> None:
        self._steps, self._exchanges = steps, exchanges
        self._timed, self._on_device = timed, on_device

    def by_phase(self, *, without: Sequence[Phase] = ()) -> dict[Phase, Table]:
        """Return the work in phases by the host's clock; in backward by the device's if it counts.

        Left out are the phases in `without` and those that were not measured.
        """
        tables = {phase: self._work(phase) for phase in Phase if phase not in without}
        return {phase: table for phase, table in tables.items() if table is not None}

    def whole(self, by_phase: Mapping[Phase, Table]) -> Table:
        """Return the work in all phases of `by_phase`, by the clock that says which rank waits.

        A host that drives a device waits for other ranks wherever it reads a value, so the device's
        own clock is asked there. It counts as work of the device to wait for its host.
        """
        tables = list(by_phase.values())
        if self._on_device:
            tables = [
                table if phase is Phase.BACKWARD else self._on_devices(phase)
                for phase, table in by_phase.items()
            ]
        total = self._steps.table([None] * len(self._steps.sessions))
        for table in tables:
            total += table
        return total

    def _work(self, phase: Phase) -> Table | None:
        if phase is Phase.BACKWARD:
            if not self._timed:
                return None
            clock = "device" if self._on_device else "phase"
            whole = self._steps.named(f"{clock}/{phase.value}")
            waits = self._steps.table(self._exchanges) + self.collectives(phase)
            return whole - waits
        columns = [session.phase_ns(phase) for session in self._steps.sessions]
        if any(column is None for column in columns):
            return None
        work = self._steps.table(columns, before=phase in AFTER)
        if not self._on_device:  # the host of a GPU waits in no collective
            work -= self.collectives(phase, before=phase in AFTER)
        if phase in MEETINGS:
            work -= self._named(MEETINGS[phase], phase)
        if phase is Phase.CALLBACKS:
            for name in OWN_CALLBACKS:
                work -= self._named(f"part/{phase.value}/{name}", phase)
        return work

    def collectives(self, phase: Phase, *, before: bool = False) -> Table:
        """Return the time in collectives of a phase, by the clock that says which rank waits.

        With `before`, it is that of the step before.
        """
        prefix = "device_part" if self._on_device else "part"
        return self._steps.named(f"{prefix}/{phase.value}/{COLLECTIVES}", before=before)

    def _on_devices(self, phase: Phase) -> Table:
        before = phase in AFTER
        whole = self._named(f"device/{phase.value}", phase)
        return whole - self.collectives(phase, before=before)

    def _named(self, name: str, phase: Phase) -> Table:
        return self._steps.named(name, before=phase in AFTER)


def exchanges_of(sessions: Sequence[Session]) -> tuple[list[Int64] | None, bool]:
    """Return the exchange in every step by rank, and whether it was timed by itself.

    If it was not, it is the whole backward pass.
    """
    on_device = any(map(trains_on_device, sessions))
    name = f"device_{EXCHANGED}" if on_device else EXCHANGED
    timed = all(name in session.columns for session in sessions)
    if timed:
        return [session.columns[name] for session in sessions], True
    backward = [None if on_device else session.phase_ns(Phase.BACKWARD) for session in sessions]
    measured = [column for column in backward if column is not None]
    return measured if len(measured) == len(sessions) else None, False


def trains_on_device(session: Session) -> bool:
    """Return whether a rank trains on a device other than the CPU."""
    return session.start.device is not None and session.start.device.type != "cpu"
