"""`lightning-gpuprof analyze FILE...`: where a trace's time went, from any profiler's file."""

import argparse
import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lightning_gpuprof.errors import ConfigError, GpuProfError, UnknownTraceError

if TYPE_CHECKING:
    from lightning_gpuprof.traces import ReadOptions
    from lightning_gpuprof.traces.timeline import Timeline

_UNREADABLE = 2
"""Exit status where a file could not be read, as for any request that cannot be met."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="trace files; their kind is found from content"
    )
    parser.add_argument("--json", action="store_true", help="print the document of docs/json.md")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--step", type=int, metavar="N", help="analyse ProfilerStep#N alone")
    part.add_argument(
        "--steady", action="store_true", help="analyse all steps but the first of the trace"
    )
    parser.add_argument(
        "--stacks", action="store_true", help="read Python stacks too, to name source lines"
    )
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="rows per table (default: 10)"
    )


def run(args: argparse.Namespace) -> int:
    """Analyse each file and print it."""
    if args.top < 1:
        raise ConfigError(f"--top {args.top} would show no row. Pass 1 or more.")
    # The process ends when this is done. Looking for garbage meanwhile, in modules that are being
    # imported above all, takes a tenth of the time on a small trace.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _run(args)
    finally:
        if was_on:
            gc.enable()


def _run(args: argparse.Namespace) -> int:
    if "numpy" not in sys.modules:
        # Nothing here multiplies matrices.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported here, with the collector off.
    from lightning_gpuprof.traces import ReadOptions
    from lightning_gpuprof.views.progress import Progress

    progress = Progress("reading", after_s=1.0) if sys.stderr.isatty() else None
    options = ReadOptions(stacks=args.stacks, progress=progress)
    return _print_json(args, options) if args.json else _print_text(args, options)


def _print_json(args: argparse.Namespace, options: "ReadOptions") -> int:
    import msgspec

    documents: list[Any] = []
    failed = _each(args.files, lambda path: documents.append(_document(path, args, options)))
    if documents:
        whole = documents[0] if len(args.files) == 1 else documents
        text = msgspec.json.format(msgspec.json.encode(whole), indent=2)
        sys.stdout.write(text.decode() + "\n")
    return failed


def _print_text(args: argparse.Namespace, options: "ReadOptions") -> int:
    return _each(args.files, lambda path: _print_file(path, args, options))


def _each(paths: list[str], do: Callable[[str], None]) -> int:
    """Go through the files; one that cannot be read is named, and keeps none of the others away."""
    if len(paths) == 1:
        do(paths[0])
        return 0
    failed = 0
    for path in paths:
        try:
            do(path)
        except GpuProfError as error:
            print(f"lightning-gpuprof: {error}", file=sys.stderr)
            failed = _UNREADABLE
    return failed


def _document(path: str, args: argparse.Namespace, options: "ReadOptions") -> dict[str, Any]:
    from lightning_gpuprof.views.documents.trace_payload import analyze_file

    try:
        return analyze_file(path, options, step=args.step, steady=args.steady)
    except UnknownTraceError:
        from lightning_gpuprof.views.documents.other_files import other_payload

        other = other_payload(path)
        if other is None:
            raise
        return other


def _print_file(path: str, args: argparse.Namespace, options: "ReadOptions") -> None:
    from lightning_gpuprof.traces import open_timeline

    try:
        timeline = open_timeline(path, options)
    except UnknownTraceError:
        from lightning_gpuprof.views.documents.other_files import other_payload
        from lightning_gpuprof.views.text.files import other_lines

        other = other_payload(path)
        if other is None:
            raise
        print("\n".join(other_lines(other, top=args.top)) + "\n")
        return
    _print_timeline(path, timeline, args)


def _print_timeline(path: str, timeline: "Timeline", args: argparse.Namespace) -> None:
    from lightning_gpuprof.analysis.trace.linked_trace import join_launches
    from lightning_gpuprof.views.documents.trace_payload import (
        choose_window,
        split_payload,
        whole_payload,
    )
    from lightning_gpuprof.views.text.trace import render_rest, render_split

    window = choose_window(timeline, step=args.step, steady=args.steady)
    # Before the other analyses: on a large trace they take a while.
    launches = join_launches(timeline)
    print(render_split(split_payload(path, timeline, launches, window)), end="", flush=True)
    document = whole_payload(path, timeline, launches, window)
    print(render_rest(document, top=args.top))
