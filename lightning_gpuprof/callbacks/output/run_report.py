"""What the user is shown when a fit has ended: the report, and findings in the loggers."""

import os
import sys
from typing import Any

from lightning_gpuprof.callbacks._lightning import Trainer
from lightning_gpuprof.callbacks.output.console import say
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.units import duration
from lightning_gpuprof.views.console.console import render_for
from lightning_gpuprof.views.documents.report import Report, load_report


def show_report(trainer: Trainer, run_dir: str) -> None:
    """Show the report of the session that has just ended, and hand its findings to the loggers."""
    try:
        report = load_report(run_dir)
    except RecordError as error:  # an unwritable folder, of which the output has warned
        why = str(error) if os.path.isdir(run_dir) else f"nothing could be written to {run_dir}."
        say(f"[PROFILE] no report: {why}")
        return
    say(render_for(report, sys.stderr).rstrip())
    _log_findings(trainer, report)


def findings_markdown(report: Report) -> str:
    """Return the ranked findings as Markdown."""
    if not report.findings:
        return "No findings: nothing that this package knows of holds the run back."
    lines = []
    for number, finding in enumerate(report.findings, start=1):
        low, high = duration(finding.saving_ns.low), duration(finding.saving_ns.high)
        lines.append(
            f"{number}. **{finding.title}** ({finding.id}, {finding.severity.value}): "
            f"{finding.advice} Expected saving per step: {low} to {high}."
        )
    return "\n".join(lines)


def _log_findings(trainer: Trainer, report: Report) -> None:
    step = trainer.global_step
    for logger in trainer.loggers:
        experiment: Any = getattr(logger, "experiment", None)
        add_text = getattr(experiment, "add_text", None)
        if callable(add_text):
            add_text("gpuprof/findings", findings_markdown(report), global_step=step)
