"""Shows the report when a fit has ended."""

import io
import sys

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.session.console import report_command, say
from lightning_gpuprof.session.output import RunOutput
from lightning_gpuprof.views.console.console import render_for
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.documents.stored_analysis import analyse_traces


def show_report(output: RunOutput) -> None:
    """Show the report of the session that has just ended.

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
    closed = getattr(sys.stderr, "closed", True)  # also where there is none: a log may take it
    say(render_for(report, io.StringIO() if closed else sys.stderr).rstrip())
