"""`lightning-gpuprof analyze FILE...`: where a trace's time went, from any profiler's file."""

import argparse
import sys

import msgspec

from lightning_gpuprof.traces import ReadOptions
from lightning_gpuprof.views.trace_payload import analyze_file
from lightning_gpuprof.views.trace_text import render_rest, render_split


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="trace files; their kind is found from content"
    )
    parser.add_argument("--json", action="store_true", help="print the document of docs/json.md")
    parser.add_argument(
        "--stacks", action="store_true", help="read Python stacks too, to name source lines"
    )
    parser.add_argument(
        "--top", type=int, default=10, metavar="N", help="rows per table (default: 10)"
    )


def run(args: argparse.Namespace) -> int:
    """Analyse each file and print it."""
    options = ReadOptions(stacks=args.stacks)
    if args.json:
        documents = [analyze_file(path, options) for path in args.files]
        whole = documents[0] if len(documents) == 1 else documents
        text = msgspec.json.format(msgspec.json.encode(whole), indent=2)
        sys.stdout.write(text.decode() + "\n")
        return 0
    for path in args.files:
        document = analyze_file(path, options)
        print(render_split(document), end="", flush=True)
        print(render_rest(document, top=args.top))
    return 0
