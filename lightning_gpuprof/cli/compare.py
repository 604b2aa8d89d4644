"""`lightning-gpuprof compare BASE NEW ...`: what changed between runs, steps, or traces."""

import argparse
import os
import shlex
from pathlib import Path

from lightning_gpuprof.analysis.compare.compare import Verdict
from lightning_gpuprof.cli.arguments import add_form, share
from lightning_gpuprof.cli.output import write_document
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.files import newest_trace, top_runs
from lightning_gpuprof.records.remote import local_path
from lightning_gpuprof.report.comparison import (
    TOLERANCE,
    RunComparison,
    compare_several,
)
from lightning_gpuprof.report.load import runs_in

SLOWER = 1
NOT_SURE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "base",
        metavar="BASE",
        help="log dir to compare with (or a folder of runs, for the newest), or trace file; "
        "RUN@0-4000 for the steps 0 to 4,000 of a run alone, RUN@4200- for those from 4,200; a "
        "folder of several runs without NEW compares each of them with the oldest",
    )
    parser.add_argument(
        "new",
        metavar="NEW",
        nargs="*",
        help="log dir in question (or a folder of runs, for the newest), or trace file; "
        "several log dirs are each compared with BASE and shown in one table",
    )
    add_form(parser)
    parser.add_argument(
        "--verbose", action="store_true", help="also show all rows, and all figures of every run"
    )
    parser.add_argument(
        "--fail-if-slower",
        type=share,
        metavar="SHARE",
        help="exit with status 1 if the fit of a NEW, including the time between epochs, is surely "
        "slower by more than this (5%% or 0.05), even if its model differs, and with status 2 "
        "if there are too few steps to tell",
    )
    parser.add_argument(
        "--fail-if-values-differ",
        action="store_true",
        help="exit with status 1 if recorded losses or tensors differ beyond the tolerance",
    )
    parser.add_argument(
        "--tolerance",
        type=share,
        default=TOLERANCE,
        metavar="SHARE",
        help="how far losses and tensors may differ, relative to their size (default: 1%%)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the comparison; return a status that says whether every new run passes."""
    args.base, *args.new = (_trace_in(local_path(path)) for path in (args.base, *args.new))
    if not args.new:
        args.base, *args.new = _all_of(args.base)
    if _are_traces([args.base, *args.new]):
        return _compare_traces(args)
    several = compare_several(args.base, *args.new, tolerance=args.tolerance)
    alone = several.comparisons[0] if len(several.comparisons) == 1 else None
    write_document((alone or several).document(), args, verbose=args.verbose)
    statuses = [_status(comparison, args) for comparison in several.comparisons]
    return SLOWER if SLOWER in statuses else max(statuses)


def _trace_in(path: str) -> str:
    """Return the newest trace of a folder that holds traces and no run, and otherwise the path."""
    if not os.path.isdir(path) or top_runs(path):
        return path
    return newest_trace(path) or path


def _all_of(folder: str) -> list[str]:
    runs = runs_in(folder) if os.path.isdir(folder) else []
    if len(runs) < 2:
        raise ConfigError(
            f"NEW is missing. Call it as: lightning-gpuprof compare {shlex.quote(folder)} NEW, or "
            "with one folder that holds several runs."
        )
    return runs


def _are_traces(paths: list[str]) -> bool:
    """Return whether the paths are trace files, and not runs (folders, or record files in them)."""
    traces = [path for path in paths if os.path.isfile(path) and not path.endswith(".jsonl")]
    others = [path for path in paths if path not in traces]
    if traces and others:
        why = "is not" if Path(others[0]).exists() else "does not exist"
        raise ConfigError(
            f"{traces[0]} is a trace file and {others[0]} {why}. Pass two runs' log dirs, or "
            "two trace files."
        )
    return bool(traces)


def _compare_traces(args: argparse.Namespace) -> int:
    # Imported here, as below: runs need none of it.
    from lightning_gpuprof.analysis.trace_analysis import analyze_file
    from lightning_gpuprof.report.build_trace_diff import build_trace_diff

    fails = args.fail_if_slower is not None or args.fail_if_values_differ
    if fails or len(args.new) > 1:
        raise ConfigError(
            "Trace files are compared two at a time, without --fail-if-...: they hold too few "
            "steps to be sure. Pass two of them, or the runs' log dirs."
        )
    base, test = analyze_file(args.base), analyze_file(args.new[0])
    write_document(build_trace_diff(base, test), args, verbose=args.verbose)
    return 0


def _status(comparison: RunComparison, args: argparse.Namespace) -> int:
    result = comparison.result
    if args.fail_if_values_differ and any(value.same is False for value in result.values):
        return SLOWER
    if args.fail_if_slower is None:
        return 0
    if result.fit_change is None:
        return NOT_SURE
    slower = result.verdict is Verdict.SLOWER and result.fit_change.middle > args.fail_if_slower
    return SLOWER if slower else 0
