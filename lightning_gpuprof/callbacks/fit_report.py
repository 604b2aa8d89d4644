"""Shows the report when a fit has ended, and hands its findings to the loggers."""

import sys
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.session.console import report_command, say
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.units import duration
from lightning_gpuprof.views.console.console import render_for
from lightning_gpuprof.views.documents.report import Report, load_report
from lightning_gpuprof.views.documents.stored_analysis import analyse_traces


def show_report(trainer: Trainer, output: RunOutput) -> None:
    """Show the report of the session that has just ended, and hand its findings to the loggers.

    Its traces are analysed first; Ctrl-C leaves that to the next reader.
    """
    if output.unwritten:  # the output has warned of that
        say(f"[PROFILE] no report: what was measured could not be written to {output.run_dir}.")
        return
    try:
        failed = analyse_traces(output.run_dir, session=output.session)
    except KeyboardInterrupt:
        say("[PROFILE] the report is made without its trace")
        failed = {}
    for sentence in failed.values():
        say(f"[PROFILE] {sentence}")
    try:
        report = load_report(output.run_dir)
    except RecordError as error:
        say(f"[PROFILE] no report: {error}")
        return
    if report.results.start.session != output.session:
        # Such as a second `fit` of a Trainer that has reached its max_epochs.
        say(
            "[PROFILE] no report: this fit trained no batch. The previous fit's report: "
            f"{report_command(output.run_dir)}"
        )
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
