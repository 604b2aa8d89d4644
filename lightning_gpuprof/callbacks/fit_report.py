"""Shows the report when a fit has ended."""

import io
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import TAKES_FILES, is_kind
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.files import plugin_dir
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import TALL_SCREEN, render_for
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.stored_analysis import analyse_traces
from lightning_gpuprof.runtime.console import report_command, say
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import guarded_call
from lightning_gpuprof.runtime.safe_logger import SafeLogger

REPORT = "report.html"


def show_report(context: RunContext) -> bool:
    """Show the report of the session that has just ended. Return whether there is a report.

    The traces of the session are analysed first. Ctrl-C leaves that to the next reader.
    """
    if context.cannot_write:  # the context has shown a warning
        say(f"[PROFILE] no report: what was measured could not be written to {context.run_dir}.")
        return False
    try:
        failed = analyse_traces(context.run_dir, session=context.session)
    except KeyboardInterrupt:
        say("[PROFILE] the report is shown without its trace")
        failed = {}
    for sentence in failed.values():
        say(f"[PROFILE] {sentence}")
    try:
        try:
            report = load_report(context.run_dir, time_operators=True)
        except KeyboardInterrupt:  # leaves the timing of operators to the next reader
            report = load_report(context.run_dir)
    except RecordError as error:
        say(f"[PROFILE] no report: {error}")
        return False
    if report.results.start.session != context.session:
        # Such as a second `fit` of a Trainer that has reached its max_epochs.
        say(
            "[PROFILE] no report: this fit trained no batch. The previous fit's report: "
            f"{report_command(context.run_dir)}"
        )
        return False
    # If stderr is missing or closed, the user's logging may still show the report.
    is_closed = getattr(sys.stderr, "closed", True)
    stream = io.StringIO() if is_closed else sys.stderr
    say(render_for(build_run(report), stream, most_lines=TALL_SCREEN).rstrip())
    return True


def attach_report(context: RunContext, loggers: Sequence[Any]) -> None:
    """Hand the report as an HTML file to the loggers that take files."""
    receivers = [
        (hand_over, logger)
        for kind, hand_over in TAKES_FILES.items()
        for logger in loggers
        if is_kind(logger, kind)
    ]
    if not receivers:
        return
    # This is imported here because few runs need it.
    from lightning_gpuprof.report.html import write_html

    name = REPORT if context.stage == "fit" else f"{context.stage}-{REPORT}"
    path = os.path.join(plugin_dir(context.run_dir), name)
    write_html(path, context.run_dir, session=context.session)
    for hand_over, logger in receivers:
        guarded_call(SafeLogger(logger, context), partial(hand_over, logger, path))()
