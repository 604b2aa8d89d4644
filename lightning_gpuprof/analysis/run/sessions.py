"""The sessions of a record file, and which of them a report is about."""

from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.reader import RankRecords, Session


@dataclass(frozen=True)
class SessionView:
    """One fit, validate, test or predict call, in brief."""

    session: int
    stage: str
    started_unix_ns: int
    steps: int
    status: str


def session_views(records: RankRecords) -> tuple[SessionView, ...]:
    """Describe every session of a rank in brief, in the order they ran."""
    return tuple(
        SessionView(
            session=session.start.session,
            stage=session.start.stage,
            started_unix_ns=session.start.started_unix_ns,
            steps=session.steps,
            status="open" if session.end is None else session.end.status,
        )
        for session in records.sessions
    )


def choose_session(records: RankRecords, number: int | None) -> Session:
    """Return the session of that number; by default the last fit that recorded steps.

    Where no fit recorded a step, the last fit; without any fit, the last session.

    Raises:
        RecordError: There is no session of that number.
    """
    if number is None:
        fits = [session for session in records.sessions if session.start.stage == "fit"]
        stepped = [session for session in fits if session.steps]
        return (stepped or fits or list(records.sessions))[-1]
    for session in reversed(records.sessions):
        if session.start.session == number:
            return session
    there = ", ".join(f"{s.start.session} ({s.start.stage})" for s in records.sessions)
    raise RecordError(f"There is no session {number} in this run. It has: {there}.")


def same_session(ranks: Mapping[int, RankRecords], number: int) -> dict[int, Session]:
    """Return the session of that number of each rank that has one."""
    found = {
        rank: [session for session in records.sessions if session.start.session == number]
        for rank, records in ranks.items()
    }
    return {rank: sessions[-1] for rank, sessions in found.items() if sessions}
