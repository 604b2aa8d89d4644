"""What a run is: its sessions, device and versions, and what could not be read of it."""

from typing import Any

import msgspec

from lightning_gpuprof.analysis.run.run import OF_STEPS
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Memory, Note, ProbeDisabled, Scalars
from lightning_gpuprof.views.documents.rank_notices import first_few
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query


def run_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the run's header: every rank's sessions, and the asked session's facts.

    Raises:
        QueryError: There is no such rank or session, or none that can be read.
    """
    session = run.session(query)
    start = session.start
    memory = session.all(Memory)
    numbers = session.columns.get("step")
    return {
        "name": run.name,
        "ranks": [
            {"rank": rank, "sessions": [_session(one) for one in records.sessions]}
            for rank, records in run.ranks.items()
        ],
        "warnings": first_few(
            [text for records in run.ranks.values() for text in records.warnings]
        ),
        "rank": start.rank,
        "session": start.session,
        "stage": start.stage,
        "started_unix_ns": start.started_unix_ns,
        "steps": session.steps,
        "last_step": int(numbers[-1]) if numbers is not None and len(numbers) else None,
        "phases": start.phases,
        "timer": start.timer,
        "world_size": start.world_size,
        "device": msgspec.to_builtins(start.device),
        "loader": msgspec.to_builtins(start.loader),
        "model": msgspec.to_builtins(start.model),
        "trainer": msgspec.to_builtins(start.trainer),
        "torch_settings": start.torch_settings,
        "versions": start.versions,
        "end": msgspec.to_builtins(session.end),
        "memory": msgspec.to_builtins(memory[-1]) if memory else None,
        "loss": _last_loss(session),
        "notes": [
            msgspec.to_builtins(note) for note in session.all(Note) if note.name not in OF_STEPS
        ],
        "disabled": [
            {"probe": record.probe, "step": record.step, "error": record.error}
            for record in session.all(ProbeDisabled)
        ],
    }


def _session(session: Session) -> dict[str, Any]:
    return {
        "session": session.start.session,
        "stage": session.start.stage,
        "started_unix_ns": session.start.started_unix_ns,
        "steps": session.steps,
        "status": session.end.status if session.end else None,
    }


def _last_loss(session: Session) -> dict[str, Any] | None:
    """Return the newest deferred loss with its step number, None where none was recorded."""
    for record in reversed(session.all(Scalars)):
        name = next((name for name in ("loss", "train_loss") if name in record.values), None)
        for step, value in zip(
            reversed(record.steps), reversed(record.values.get(name or "", [])), strict=False
        ):
            if value is not None:
                return {"name": name, "step": step, "value": value}
    return None
