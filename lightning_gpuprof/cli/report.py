"""`lightning-gpuprof report RUN`: where a run's time went, what holds it back, what to change."""

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

from lightning_gpuprof.cli.arguments import add_form
from lightning_gpuprof.errors import RecordError, TraceError
from lightning_gpuprof.records.files import LAYOUT_SUFFIX
from lightning_gpuprof.views.documents.report import load_report, resolve_run
from lightning_gpuprof.views.documents.stored_analysis import analyse_traces, traces_of
from lightning_gpuprof.views.tab.tab import NEEDS_MORE, PAGES, VIEWS, find_view

_ONE_RUN_VIEWS = sorted({*VIEWS, *PAGES} - set(NEEDS_MORE))
_TIMELINES = 4
"""The last so many traces, as the HTML report shows."""
DEFAULT_LOGS = "lightning_logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        default=DEFAULT_LOGS,
        help="a run's log dir, such as lightning_logs/version_0, or a folder of them (the newest); "
        f"default: {DEFAULT_LOGS}",
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
        help="also all changes, evidence, phases, operators, slowest steps, rules that abstained",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report, or write it as HTML."""
    if args.html:
        _write_html(args.html, args.run, args.session)
        return 0
    if args.view:
        print(_view(args.run, args.view, args.session))
        return 0
    report = load_report(args.run, session=args.session, analyse=True)
    if args.json:
        print(json.dumps(report.payload(), indent=2))
        return 0
    # Imported here, as below: --json needs none of it.
    if args.markdown:
        from lightning_gpuprof.views.text.report_markdown import report_markdown

        sys.stdout.write(report_markdown(report))
        return 0
    from lightning_gpuprof.views.console.console import render_for

    sys.stdout.write(render_for(report, sys.stdout, verbose=args.verbose))
    return 0


def _write_html(target: str, run: str, session: int | None) -> None:
    from lightning_gpuprof.views.html.html import render_html

    _lay_out(resolve_run(run).run)
    html = render_html(run, session=session)
    try:
        Path(target).write_text(html, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{target} cannot be written ({error}). Pass another file.") from error
    print(f"wrote {target}")


def _lay_out(run: str) -> None:
    """Lay the run's last traces out for the timeline and the call tree, where nobody has."""
    # Imported here: the report needs none of it.
    from lightning_gpuprof.views.tab.layout_file import write_layout

    for trace in traces_of(run)[-_TIMELINES:]:
        if not Path(trace + LAYOUT_SUFFIX).exists():
            with suppress(TraceError, OSError):  # their views say that there is none
                write_layout(trace)


def _view(path: str, name: str, session: int | None) -> str:
    """Return what the tab's route of that name answers for a run's default rank."""
    from lightning_gpuprof.views.tab.loaded_run import LoadedRun
    from lightning_gpuprof.views.tab.query import Query

    found = resolve_run(path)
    analyse_traces(found.run)
    _lay_out(found.run)
    run = LoadedRun(found.run)
    wanted = Query({} if session is None else {"session": str(session)})
    run.session(wanted)  # says what is wrong with a path that is no run: some views would be empty
    return json.dumps(find_view(PAGES.get(name, name))(run, wanted), indent=2)
