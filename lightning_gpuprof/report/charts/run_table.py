"""All runs in one table: step time, GPU busy, samples per second, and the first finding of each."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from lightning_gpuprof.report.charts.run_views import RunLine
from lightning_gpuprof.report.document import Column, Document, Section, Table, Value

STATES = {
    "live": "live",
    "finished": "finished",
    "exception": "failed",
    "interrupted": "interrupted",
    "stopped": "stopped",
    "newer-schema": "newer version",
    "trace": "traces only",
    "unreadable": "unreadable",
}
UNREADABLE = ("newer-schema", "unreadable")
"""States of runs that have no document."""
FIRST_ROWS = 50

Summary = Mapping[str, Value]
"""What the table shows of a run's document, by column."""


class RunTable(Struct, frozen=True):
    """The table of all runs."""

    sections: tuple[Section, ...]
    pending: int
    """How many runs have no figures yet: ask again."""


def summary(document: Document) -> Summary:
    """Return what the table shows of a run: figures and what to change first."""
    verdict = document.verdict
    saving = document.findings[0].saving if document.findings else None
    return {
        "step_ns": document.figure("step_ns"),
        "gpu_busy_frac": document.figure("gpu_busy_frac"),
        "samples_per_s": document.figure("samples_per_s"),
        "finding": None if verdict is None else verdict.title,
        "saves": None if saving is None else saving.short,
    }


def run_table(runs: Sequence[RunLine], summary_of: Callable[[RunLine], Summary | None]) -> RunTable:
    """Return the table of runs, in their order.

    Args:
        runs: The runs as they are listed.
        summary_of: Returns a run's summary, or None while there is none.
    """
    rows: list[dict[str, Value]] = []
    pending = 0
    for run in runs:
        row: dict[str, Value] = {
            "id": run.name,
            "run": run.name,
            "status": STATES.get(run.state, run.state),
            "started_unix_ns": run.started_unix_ns,
            "steps": run.steps,
        }
        if run.state in UNREADABLE:
            row["note"] = run.error
        elif (known := summary_of(run)) is None:
            pending += 1
        else:
            row |= known
        rows.append(row)
    columns = (
        Column("run", "Run", "code"),
        Column("status", "Status", "text"),
        Column("started_unix_ns", "Started", "unix_ns"),
        Column("steps", "Steps", "count"),
        Column("step_ns", "Step time", "ns"),
        Column("gpu_busy_frac", "GPU busy", "frac"),
        Column("samples_per_s", "Samples", "per_s"),
        Column("finding", "First finding", "text"),
        Column("saves", "Saves", "text"),
    )
    table = Table("runs", columns, tuple(rows), first_rows=FIRST_ROWS, searchable=True)
    note = f"{pending} of {len(rows)} are still being read" if pending else None
    return RunTable((Section("runs", "Runs", "page", (table,), note=note),), pending)
