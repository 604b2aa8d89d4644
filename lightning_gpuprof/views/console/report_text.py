"""The report as text, for a notebook or a program."""

import os

from lightning_gpuprof.views.console.console import render
from lightning_gpuprof.views.documents.report import load_report


def report(
    run: str | os.PathLike[str] = "lightning_logs",
    *,
    session: int | None = None,
    verbose: bool = False,
) -> str:
    """Give the report of a run as text: `print(report(trainer.log_dir))`.

    Args:
        run: A run's log dir, or a folder of them: then the newest.
        session: Which of the run's sessions; by default the last fit that recorded steps.
        verbose: Also all changes, evidence, phases, operators, slowest steps and rules that
            abstained.

    Returns:
        The lines that `lightning-gpuprof report` prints, without colours.

    Raises:
        RecordError: There is no run of ours, or none that can be read.
    """
    found = load_report(os.fspath(run), session=session, analyse=True)
    return render(found, verbose=verbose, color=False, unicode=True)
