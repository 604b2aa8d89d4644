"""The session itself: its figures at a glance, its clock, its notes and what failed in it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.sessions import SessionView
from lightning_gpuprof.findings.question_figures import suggested_workers
from lightning_gpuprof.records.phases import OWN_PART
from lightning_gpuprof.records.schema import Advice
from lightning_gpuprof.report.document import Column, Figure, Figures, Section, Table, Value
from lightning_gpuprof.units import size

LOSSES = ("loss", "train_loss")
"""Names under which a loss may be recorded; the first one that exists is shown."""


def facts_section(run: RunResults) -> Section | None:
    """Return figures that the tab shows below the verdict; None if no step was recorded."""
    steps = run.steps
    if steps is None:
        return None
    figures = [
        Figure("p95_ns", "slow steps", steps.dur.p95_ns, "ns", "one step in twenty takes longer"),
        Figure("max_ns", "slowest step", steps.dur.max_ns, "ns"),
    ]
    if (memory := run.memory.use) is not None:
        figures += [
            Figure(
                "peak_reserved_bytes", "GPU memory", memory.peak_reserved_bytes, "bytes",
                f"of {size(memory.total_bytes)}, peak reserved",
            ),
        ]  # fmt: skip
    if (loss := _last_loss(run)) is not None:
        figures.append(loss)
    cost = run.own_cost
    if cost is not None:
        figures.append(
            Figure("own_cost_ns", "own cost", cost.total_ns, "ns", f"per step, by {OWN_PART}")
        )
    return Section("facts", "At a glance", "verbose", (Figures(tuple(figures)),))


def _last_loss(run: RunResults) -> Figure | None:
    """Return the newest deferred loss with its step; None if no loss was recorded."""
    for record in reversed(run.facts.scalars):
        name = next((name for name in LOSSES if name in record.values), None)
        if name is None:
            continue
        for step, value in zip(reversed(record.steps), reversed(record.values[name]), strict=False):
            if value is not None:
                return Figure("loss", name.replace("_", " "), value, "number", f"at step {step:,}")
    return None


def process_section(run: RunResults) -> Section:
    """Return the session's clock, its notes, its setup and all sessions."""
    wall, cost = run.wall, run.own_cost
    figures = Figures(
        (
            Figure("started_unix_ns", "started", run.start.started_unix_ns, "unix_ns"),
            Figure("wall_ns", "wall time", wall.wall_ns, "ns"),
            Figure("accounted_ns", "accounted for", wall.accounted_ns, "ns"),
            Figure("accounted_frac", "of it", wall.accounted_frac, "frac"),
            Figure(
                "own_cost_ns", "own cost per step", None if cost is None else cost.total_ns, "ns",
            ),
            Figure("windows_ns", "closing profiler windows", run.windows_ns, "ns"),
            Figure("rank", "rank", run.start.rank, "count"),
            Figure("world_size", "ranks", run.start.world_size, "count"),
            Figure("suggested_num_workers", "workers advised", suggested_workers(run), "count"),
        )
    )  # fmt: skip
    parts: list[Figures | Table] = [figures, _sessions(run.sessions)]
    if run.on_gpu and run.memory.advice is not None:
        parts.append(_advice_figures(run.memory.advice))
    if run.facts.probe_failures:
        parts.append(_failures(run))
    if run.facts.notes:
        parts.append(_notes(run))
    return Section("process", "The session", "verbose", tuple(parts))


def _sessions(sessions: Sequence[SessionView]) -> Table:
    columns = (
        Column("session", "Session", "count"),
        Column("stage", "Stage", "text"),
        Column("started_unix_ns", "Started", "unix_ns"),
        Column("steps", "Steps", "count"),
        Column("status", "Ended", "text"),
    )
    rows = tuple(asdict(session) for session in sessions)
    return Table("sessions", columns, rows, title="Sessions of this run")


def _advice_figures(advice: Advice) -> Figures:
    return Figures(
        (
            Figure("batch_size", "batch size", advice.batch_size, "count"),
            Figure("suggested_batch_size", "advised", advice.suggested_batch_size, "count"),
            Figure("lowest_batch_size", "at least", advice.low, "count"),
            Figure("highest_batch_size", "at most", advice.high, "count"),
            Figure("advice_reason", "because", advice.reason or None, "text"),
            Figure("advice_step", "as of step", advice.step, "count"),
        ),
        title="Batch size",
    )


def _failures(run: RunResults) -> Table:
    columns = (
        Column("probe", "Part", "code"),
        Column("step", "Step", "count"),
        Column("error", "Error", "text"),
        Column("traceback", "Traceback", "text"),
    )
    rows: list[Mapping[str, Value]] = [
        {
            "probe": failure.probe,
            "step": failure.step,
            "error": failure.error,
            "traceback": failure.traceback or None,
        }
        for failure in run.facts.probe_failures
    ]
    return Table("failures", columns, tuple(rows), title="Recorders that failed")


def _notes(run: RunResults) -> Table:
    columns = (
        Column("step", "Step", "count"),
        Column("name", "Note", "code"),
        Column("value", "Value", "text"),
        Column("message", "Message", "text"),
    )
    rows: list[Mapping[str, Value]] = [
        {
            "step": note.step,
            "name": note.name,
            "value": None if note.value is None else str(note.value),
            "message": note.message or None,
        }
        for note in run.facts.notes
    ]
    return Table("notes", columns, tuple(rows), title="Notes")
