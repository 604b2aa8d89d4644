"""`lightning-gpuprof report RUN`: where a run's time went, what holds it back, what to change."""

import argparse
import os
from typing import Any

from lightning_gpuprof.cli.arguments import add_form
from lightning_gpuprof.cli.output import write_document, write_json
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.files import top_runs
from lightning_gpuprof.records.span import split_span
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.charts.registry import NEEDS_MORE, PAGES, VIEWS, find_view
from lightning_gpuprof.report.load import load_report, resolve_run, written_ns
from lightning_gpuprof.report.stored_analysis import analyse_traces

_ONE_RUN_VIEWS = sorted({*VIEWS, *PAGES} - set(NEEDS_MORE))
DEFAULT_LOGS = "lightning_logs"
NEARBY_DEPTH = 3
"""Runs are looked for so many folders deep, such as in logs/lightning_logs/version_0."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="a run's log dir (lightning_logs/version_0), or a folder of runs, for the newest; "
        f"RUN@0-4000 for its steps 0 to 4,000 alone; default: {DEFAULT_LOGS}, "
        "or the newest run in this folder's subfolders",
    )
    form = add_form(parser)
    form.add_argument("--html", metavar="FILE", help="write the report as one HTML file")
    form.add_argument(
        "--view",
        metavar="NAME",
        choices=_ONE_RUN_VIEWS,
        help=f"print the data of one view of the PROFILE tab as JSON: {', '.join(_ONE_RUN_VIEWS)}",
    )
    add = parser.add_argument
    add("--session", type=int, metavar="N", help="which session (default: the last fit)")
    add(
        "--verbose",
        action="store_true",
        help="also show all changes, evidence, phases, operators, slowest steps, silent rules",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report, or write it as HTML."""
    args.run = args.run or _default_run()
    if (args.html or args.view) and split_span(args.run)[1] is not None:
        raise ConfigError(
            f"{args.run} names steps of a run, but --html and --view show whole runs. Leave the "
            "option out, or the @ and what follows it."
        )
    if args.html:
        from lightning_gpuprof.report.html import write_html

        write_html(args.html, args.run, session=args.session)
        print(f"wrote {args.html}")
        return 0
    if args.view:
        write_json(_view(args.run, args.view, args.session))
        return 0
    document = build_run(load_report(args.run, session=args.session, analyse=True))
    write_document(document, args, verbose=args.verbose)
    return 0


def _default_run() -> str:
    """Return Lightning's usual folder of logs; if that is missing, the newest run nearby."""
    if os.path.isdir(DEFAULT_LOGS):
        return DEFAULT_LOGS
    newest = max(top_runs(os.curdir, most_depth=NEARBY_DEPTH), key=written_ns, default=None)
    return DEFAULT_LOGS if newest is None else os.path.normpath(newest)


def _view(path: str, name: str, session: int | None) -> Any:
    """Return the answer of the tab's route of that name, for a run's default rank."""
    from lightning_gpuprof.report.charts.loaded_run import LoadedRun
    from lightning_gpuprof.report.charts.query import Query
    from lightning_gpuprof.report.html import lay_out

    folder, _ = resolve_run(path)
    analyse_traces(folder)
    lay_out(folder)
    run = LoadedRun(folder)
    wanted = Query({} if session is None else {"session": str(session)})
    run.session(wanted)  # says what is wrong with a path that is no run: some views would be empty
    return find_view(PAGES.get(name, name))(run, wanted)
