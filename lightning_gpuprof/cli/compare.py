"""`lightning-gpuprof compare BASE NEW ...`: what changed between runs, or two trace files."""

import argparse
import json
import os
import shlex
import sys

from lightning_gpuprof.analysis.compare.compare import Verdict
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.views.documents.compare import TOLERANCE, RunComparison
from lightning_gpuprof.views.documents.compare_several import SeveralComparison, compare_several
from lightning_gpuprof.views.documents.find_run import runs_in
from lightning_gpuprof.views.documents.trace_diff import are_traces, diff_files, diff_lines
from lightning_gpuprof.views.markdown.compare_markdown import comparison_markdown, several_markdown

SLOWER = 1
NOT_SURE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "base",
        metavar="BASE",
        help="log dir to compare with (or a folder of them: the newest), or trace file; a folder "
        "of several runs alone: each with the one that was begun first",
    )
    new = parser.add_argument(
        "new",
        metavar="NEW",
        nargs="*",
        help="log dir in question (or a folder of them: the newest), or trace file; of several log "
        "dirs each is compared with BASE, and all are shown in one table",
    )
    new.required = True  # in what is said of a call without any argument
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the document of docs/json.md")
    form.add_argument(
        "--markdown",
        action="store_true",
        help="print Markdown for a pull request or $GITHUB_STEP_SUMMARY",
    )
    parser.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="SHARE",
        help="exit with status 1 where a NEW is surely slower, by more than this (5%% or 0.05), "
        "also where its model is another, and with 2 where there are too few steps to say",
    )
    parser.add_argument(
        "--fail-if-values-differ",
        action="store_true",
        help="exit with status 1 where recorded losses or tensors differ beyond the tolerance",
    )
    parser.add_argument(
        "--tolerance",
        type=share,
        default=TOLERANCE,
        metavar="SHARE",
        help="how far losses and tensors may differ, relative to their size (default: 1%%)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the comparison; the status says whether every new run passes."""
    if not args.new:
        args.base, *args.new = _all_of(args.base)
    traces = [are_traces(args.base, new) for new in args.new]  # refuses a mixture
    if all(traces):
        return _compare_traces(args)
    found = compare_several(args.base, *args.new, tolerance=args.tolerance)
    sys.stdout.write(_shown(found, args))
    statuses = [_status(one, args) for one in found.comparisons]
    return SLOWER if SLOWER in statuses else max(statuses)


def _all_of(folder: str) -> list[str]:
    runs = runs_in(folder) if os.path.isdir(folder) else []
    if len(runs) < 2:
        raise ConfigError(
            f"NEW is missing. Call it as: lightning-gpuprof compare {shlex.quote(folder)} NEW, or "
            "with one folder that holds several runs."
        )
    return runs


def _shown(found: SeveralComparison, args: argparse.Namespace) -> str:
    several = len(found.comparisons) > 1
    only = found.comparisons[0]
    if args.json:
        return json.dumps(found.payload() if several else only.payload(), indent=2) + "\n"
    if args.markdown:
        return several_markdown(found) if several else comparison_markdown(only)
    # Imported here: nothing else needs rich.
    from lightning_gpuprof.views.console.compare_text import render_comparison, render_several

    return render_several(found) if several else render_comparison(only)


def _compare_traces(args: argparse.Namespace) -> int:
    if args.fail_if_slower is not None or args.fail_if_values_differ:
        raise ConfigError(
            "Two trace files hold too few steps to say whether one is surely slower, and no "
            "losses. Compare the runs' log dirs, or leave --fail-if-... out."
        )
    if len(args.new) > 1:
        raise ConfigError(
            f"Trace files are compared two at a time, and {1 + len(args.new)} were given. Pass two "
            "of them, or the runs' log dirs."
        )
    if args.markdown:
        raise ConfigError(
            "--markdown is for runs. Compare the runs' log dirs, or leave it out: two trace files "
            "are compared as text or --json."
        )
    document = diff_files(args.base, args.new[0])
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(diff_lines(document)))
    return 0


def share(text: str) -> float:
    """Read a share: `5%` and `0.05` are the same.

    >>> share("5%"), share("0.05")
    (0.05, 0.05)
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6 or (value > 1 and not text.endswith("%")):
        # Whoever writes 5 means 5%: as five times as slow, it would let everything pass.
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: pass 5% or 0.05")
    return value


def _status(found: RunComparison, args: argparse.Namespace) -> int:
    result = found.result
    if args.fail_if_values_differ and any(one.same is False for one in result.values):
        return SLOWER
    if args.fail_if_slower is None:
        return 0
    if result.change is None:
        return NOT_SURE
    slower = result.verdict is Verdict.SLOWER and result.change.middle > args.fail_if_slower
    return SLOWER if slower else 0
