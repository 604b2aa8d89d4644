"""Prints a document in the form that a command was asked for."""

import argparse
import sys

import msgspec

from lightning_gpuprof.report.document import Document, encode


def write_document(document: Document, args: argparse.Namespace, *, verbose: bool = False) -> None:
    """Print a document: as JSON with --json, as Markdown with --markdown, else as text."""
    if args.json:
        print(msgspec.json.format(encode(document), indent=2).decode())
    elif getattr(args, "markdown", False):
        from lightning_gpuprof.report import markdown

        sys.stdout.write(markdown.render(document, verbose=verbose))
    else:
        # Imported here: --json needs none of it, and rich takes a while to load.
        from lightning_gpuprof.report.console import render_for

        sys.stdout.write(render_for(document, sys.stdout, verbose=verbose))
