"""The plan of work and the questions of a profile, for `report --verbose`."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.findings.checks import State, run_checks
from lightning_gpuprof.findings.engine import make_plan
from lightning_gpuprof.findings.model import Horizon
from lightning_gpuprof.units import quantity, spread
from lightning_gpuprof.views.documents.report import Report

TITLES = {Horizon.QUICK: "quick wins", Horizon.MEDIUM: "medium", Horizon.LONG: "long"}
_MARK = {State.OK: "ok", State.LOOK: "look", State.NOT_MEASURED: "-"}


def plan_parts(report: Report) -> Iterator[RenderableType]:
    """Yield the plan and the checks."""
    if report.findings:
        yield Text("\nPLAN", style="bold")
        yield Padding(_plan(report), (0, 0, 0, 2))
    yield Text("\nQUESTIONS", style="bold")
    yield Padding(_checks(report), (0, 0, 0, 2))


def _plan(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    table.add_row("when", "finding", "impact per step", "difficulty; risk", style="dim")
    last = None
    for item in make_plan(report.findings):
        finding, effort = item.finding, item.effort
        saving = finding.saving_ns
        table.add_row(
            "" if effort.horizon is last else TITLES[effort.horizon],
            finding.id,
            spread(saving.low, saving.high) if saving.high else "no time claimed",
            f"{effort.difficulty}; {effort.risk}",
        )
        last = effort.horizon
    return table


def _checks(report: Report) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    for check in run_checks(report.results):
        value = "" if check.value is None else quantity(check.figure, check.value)
        said = check.question
        if check.state is State.LOOK:
            said += f" Next: {check.next}."
        if check.state is State.NOT_MEASURED:
            said += f" Not measured: {check.next}."
        table.add_row(_MARK[check.state], value, said)
    return table
