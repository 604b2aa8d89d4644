"""`lightning-gpuprof analyze FILE...`: where a trace's time went, from any profiler's file."""

import argparse
import gc
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_gpuprof.traces import ReadOptions

_PROGRESS_AFTER_S = 1.0
_BAR_WIDTH = 40


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
    # Imported here, with the collector off.
    from lightning_gpuprof.traces import ReadOptions

    options = ReadOptions(stacks=args.stacks, progress=_Progress() if _interactive() else None)
    return _print_json(args, options) if args.json else _print_text(args, options)


def _print_json(args: argparse.Namespace, options: "ReadOptions") -> int:
    import msgspec

    from lightning_gpuprof.views.trace_payload import analyze_file

    documents = [
        analyze_file(path, options, step=args.step, steady=args.steady) for path in args.files
    ]
    whole = documents[0] if len(documents) == 1 else documents
    text = msgspec.json.format(msgspec.json.encode(whole), indent=2)
    sys.stdout.write(text.decode() + "\n")
    return 0


def _print_text(args: argparse.Namespace, options: "ReadOptions") -> int:
    from lightning_gpuprof.analysis.trace import analyze_timeline
    from lightning_gpuprof.traces import open_timeline
    from lightning_gpuprof.views.trace_payload import choose_window, split_payload, trace_payload
    from lightning_gpuprof.views.trace_text import render_rest, render_split

    for path in args.files:
        timeline = open_timeline(path, options)
        window = choose_window(timeline, step=args.step, steady=args.steady)
        # Before the other analyses: on a large trace they take a while.
        print(render_split(split_payload(path, timeline, window)), end="", flush=True)
        document = trace_payload(path, timeline, analyze_timeline(timeline, window))
        print(render_rest(document, top=args.top))
    return 0


def _interactive() -> bool:
    return sys.stderr.isatty()


class _Progress:
    """A bar on stderr, shown only where reading takes more than a second."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        filled = _BAR_WIDTH * done // total if total else _BAR_WIDTH
        if time.monotonic() - self._begun < _PROGRESS_AFTER_S or filled == self._shown:
            return
        self._shown = filled
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        end = "\r" if filled < _BAR_WIDTH else "\r\033[K"
        print(f"reading [{bar}]", end=end, file=sys.stderr, flush=True)
