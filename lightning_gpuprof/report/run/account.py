"""Where all of a run's wall time went: work on batches, and shares with a name."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.shares import share_name
from lightning_gpuprof.records.phases import OWN_PART
from lightning_gpuprof.report.document import Column, Section, Table, Value

MIN_FRAC = 0.005
"""Shares of less of the run are added up in a single row."""
FIRST_ROWS = 6


def account_section(run: RunResults) -> Section | None:
    """Return the run's wall time as rows that add up to it; None if no step was recorded."""
    account = run.account
    if account is None or run.steps is None:
        return None
    large = [share for share in account.shares if account.frac(share.total_ns) >= MIN_FRAC]
    small = [share for share in account.shares if share not in large]
    named: list[dict[str, Value]] = [
        {
            "name": share_name(share),
            "rhythm": share.rhythm.value,
            "count": share.count,
            "each_ns": share.each_ns,
            "total_ns": share.total_ns,
        }
        for share in large
    ]
    rest: list[dict[str, Value]] = [
        {"name": name, "total_ns": total_ns}
        for name, total_ns in (
            (f"{OWN_PART}, measuring", account.measuring_ns),
            ("All smaller shares", sum(share.total_ns for share in small)),
            ("Not recorded", account.unrecorded_ns),
        )
        if total_ns
    ]
    work: dict[str, Value] = {
        "name": "Work on batches",
        "rhythm": "step",
        "count": run.steps.ran,
        "each_ns": account.work_ns // run.steps.ran,
        "total_ns": account.work_ns,
    }
    rows = [{**row, "frac": account.frac(_total(row))} for row in (work, *named, *rest)]
    columns = (
        Column("name", "What", "text"),
        Column("frac", "Share", "frac", bar=True),
        Column("total_ns", "Total", "ns"),
        Column("each_ns", "Each", "ns"),
        Column("count", "Times", "count"),
        Column("rhythm", "Per", "text", note="once: not again in a longer run"),
    )
    table = Table("account", columns, tuple(rows), first_rows=FIRST_ROWS)
    return Section("account", "Where the run went", "page", (table,), note="all of the wall time")


def _total(row: dict[str, Value]) -> float:
    total_ns = row["total_ns"]
    assert isinstance(total_ns, int | float)
    return total_ns
