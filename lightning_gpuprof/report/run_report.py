"""A run's report for Python and notebooks."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec
from typing_extensions import override

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import TALL_SCREEN, render
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Document,
    Figures,
    FindingCard,
    Interval,
    Place,
    Quantity,
    Table,
    Value,
)
from lightning_gpuprof.report.format import place_name
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.notebook import first_screen

PHASES, FINDINGS = "phases", "findings"
"""Names of the tables that `to_pandas` makes from the document's bars and cards."""


class RunReport:
    """A run's report, which `print` shows as text and a notebook as a page.

    `document` is what the command prints with --json, as typed values.
    """

    def __init__(self, document: Document, *, verbose: bool = False) -> None:
        self.document, self._verbose = document, verbose

    @property
    def findings(self) -> tuple[FindingCard, ...]:
        """What holds the run back, the largest saving that can be counted on first."""
        return self.document.findings

    @property
    def phases(self) -> Mapping[str, Bar]:
        """Each phase of a step by name: its mean in ns, its share, and its time on the device."""
        bars = next((bars for bars in self.document.parts(Bars) if bars.id == PHASES), None)
        return {} if bars is None else {bar.key: bar for bar in bars.bars if not bar.level}

    @property
    def memory(self) -> Mapping[str, Value] | None:
        """The device's memory in bytes and shares by name; None if it was not measured."""
        section = self.document.section("memory")
        if section is None:
            return None
        parts = (part for part in section.body if isinstance(part, Figures))
        return {figure.key: figure.value for part in parts for figure in part.figures}

    def to_pandas(self, table: str = PHASES) -> Any:
        """Return `phases`, `findings` or a table of the document, by its id, as a DataFrame.

        An interval becomes two columns, which end in `_low` and `_high`.

        Raises:
            ConfigError: There is no such table, or pandas is not installed.
        """
        tables = {part.id: part for part in self.document.parts(Table)}
        names = [PHASES, FINDINGS, *tables]
        if table not in names:
            raise ConfigError(f"to_pandas({table!r}) is no table. Pass one of {', '.join(names)}.")
        try:
            pandas = import_module("pandas")  # an import statement would be a dependency
        except ImportError as error:
            raise ConfigError("to_pandas() needs pandas: pip install pandas") from error
        if table == PHASES:
            rows = [msgspec.structs.asdict(bar) for bar in self.phases.values()]
            return pandas.DataFrame(rows).set_index("key") if rows else pandas.DataFrame()
        if table == FINDINGS:
            return pandas.DataFrame([_finding_row(finding) for finding in self.findings])
        return pandas.DataFrame([flat_row(row) for row in tables[table].rows])

    @override
    def __str__(self) -> str:
        return render(self.document, verbose=self._verbose, most_lines=TALL_SCREEN)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return first_screen(self.document)


def flat_row(row: Mapping[str, Value]) -> dict[str, Any]:
    """Return a row of a table as plain values.

    >>> flat_row({"place": Place(file="a.py", line=3), "frac": Interval(0.1, 0.2), "count": 4})
    {'place': 'a.py:3', 'frac_low': 0.1, 'frac_high': 0.2, 'count': 4}
    """
    flat: dict[str, Any] = {}
    for key, value in row.items():
        plain = value.value if isinstance(value, Quantity) else value
        if isinstance(plain, Interval):
            flat |= {f"{key}_low": plain.low, f"{key}_high": plain.high}
        else:
            flat[key] = place_name(plain) if isinstance(plain, Place) else plain
    return flat


def _finding_row(finding: FindingCard) -> dict[str, Any]:
    saving = finding.saving
    return {
        "id": finding.id,
        "severity": finding.severity,
        "title": finding.title,
        "advice": finding.advice,
        "change": finding.change,
        "saving_low_ns": saving.low_ns if saving is not None else 0,
        "saving_high_ns": saving.high_ns if saving is not None else 0,
        "confidence": finding.confidence,
        "places": ", ".join(map(place_name, finding.places)),
    }


def report(
    run: str | os.PathLike[str] = "lightning_logs",
    *,
    session: int | None = None,
    verbose: bool = False,
) -> RunReport:
    """Read a run's report: `print(report(trainer.log_dir))`, or the last line of a notebook's cell.

    Args:
        run: A run's log dir, or a folder of runs, of which the newest is read; `RUN@0-4000` for
            its steps 0 to 4,000 alone.
        session: Which of the run's sessions; by default the last fit that recorded steps.
        verbose: Also all changes, evidence, phases, operators, slowest steps and rules that
            abstained.

    Returns:
        The report that `lightning-gpuprof report` prints, with `findings`, `phases`, `memory` and
        `to_pandas()`.

    Raises:
        RecordError: There is no run of this package, or it cannot be read.
    """
    loaded = load_report(os.fspath(run), session=session, analyse=True)
    return RunReport(build_run(loaded), verbose=verbose)
