"""`lightning-gpuprof compare BASE NEW`: what changed between two runs, or two trace files."""

import argparse
import json
import sys

from lightning_gpuprof.analysis.compare.compare import Verdict
from lightning_gpuprof.cli.renewal import renew
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.views.console.compare_text import render_comparison
from lightning_gpuprof.views.documents.compare import TOLERANCE, RunComparison, compare_runs
from lightning_gpuprof.views.documents.find_run import resolve_run
from lightning_gpuprof.views.documents.trace_diff import are_traces, diff_files, diff_lines

SLOWER = 1
NOT_SURE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "base",
        metavar="BASE",
        help="log dir to compare with (or a folder of them: the newest), or trace file",
    )
    parser.add_argument(
        "new",
        metavar="NEW",
        help="log dir in question (or a folder of them: the newest), or trace file",
    )
    parser.add_argument("--json", action="store_true", help="print the document of docs/json.md")
    parser.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="SHARE",
        help="exit with status 1 where NEW is surely slower, by more than this (5%% or 0.05), also "
        "where its model is another, and with 2 where there are too few steps to say",
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
    """Print the comparison; the status says whether the new run passes."""
    if are_traces(args.base, args.new):
        return _compare_traces(args)
    for run in (args.base, args.new):
        renew(resolve_run(run).run)
    found = compare_runs(args.base, args.new, tolerance=args.tolerance)
    if args.json:
        print(json.dumps(found.payload(), indent=2))
    else:
        sys.stdout.write(render_comparison(found))
    return _status(found, args)


def _compare_traces(args: argparse.Namespace) -> int:
    if args.fail_if_slower is not None or args.fail_if_values_differ:
        raise ConfigError(
            "Two trace files hold too few steps to say whether one is surely slower, and no "
            "losses. Compare the runs' log dirs, or leave --fail-if-... out."
        )
    document = diff_files(args.base, args.new)
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
