"""A run's report for Python and notebooks."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from typing_extensions import override

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.views.console.console import render
from lightning_gpuprof.views.documents.report import Report, load_report

TABLES = ("phases", "findings", "lines", "outside", "plan", "ranks")


class RunReport:
    """A run's report: printed it is text, in a notebook it shows itself."""

    def __init__(self, report: Report, *, verbose: bool = False) -> None:
        self._report, self._verbose = report, verbose

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What holds the run back, the largest saving that can be counted on first."""
        return self._report.findings

    @property
    def phases(self) -> Mapping[str, Mapping[str, Any]]:
        """Each phase's times in ns and its share of a step, as in `report --json`."""
        return dict(self._report.payload()["phases"])

    @property
    def memory(self) -> Mapping[str, Any] | None:
        """The device's memory and the allocator's figures, as in `report --json`; None without."""
        found: Mapping[str, Any] | None = self._report.payload()["device"]["memory"]
        return found

    def to_pandas(self, table: str = "phases") -> Any:
        """Return a table of the `report --json` document, one of `TABLES`, as a DataFrame.

        Raises:
            ConfigError: There is no such table, or pandas is not installed.
        """
        if table not in TABLES:
            raise ConfigError(f"to_pandas({table!r}) is no table. Pass one of {', '.join(TABLES)}.")
        try:
            pandas = import_module("pandas")  # an import statement would be a dependency
        except ImportError as error:
            raise ConfigError("to_pandas() needs pandas: pip install pandas") from error
        rows = self._report.payload()[table]
        frame = pandas.DataFrame
        return frame.from_dict(rows, orient="index") if isinstance(rows, dict) else frame(rows)

    @override
    def __str__(self) -> str:
        return render(self._report, verbose=self._verbose)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render(self._report, verbose=self._verbose, color=True, html=True)


def report(
    run: str | os.PathLike[str] = "lightning_logs",
    *,
    session: int | None = None,
    verbose: bool = False,
) -> RunReport:
    """Read a run's report: `print(report(trainer.log_dir))`, or the last line of a notebook's cell.

    Args:
        run: A run's log dir, or a folder of them: then the newest.
        session: Which of the run's sessions; by default the last fit that recorded steps.
        verbose: Also all changes, evidence, phases, operators, slowest steps and rules that
            abstained.

    Returns:
        What `lightning-gpuprof report` prints; `findings`, `phases`, `memory` and `to_pandas()`.

    Raises:
        RecordError: There is no run of ours, or none that can be read.
    """
    return RunReport(load_report(os.fspath(run), session=session, analyse=True), verbose=verbose)
