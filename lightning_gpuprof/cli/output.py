"""Prints a document in the form that a command was asked for."""

import argparse
import re
import sys
from typing import Any

import msgspec

from lightning_gpuprof.report.clean import message
from lightning_gpuprof.report.document import Document

_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What JSON need not escape, but a terminal obeys."""


def write_json(value: Any) -> None:
    """Print a value as JSON that a terminal shows as it is."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    print(_UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def complain(text: str) -> None:
    """Print to stderr why a request cannot be met."""
    print(f"lightning-gpuprof: {message(text)}", file=sys.stderr)


def write_document(document: Document, args: argparse.Namespace, *, verbose: bool = False) -> None:
    """Print a document: as JSON with --json, as Markdown with --markdown, else as text."""
    if args.json:
        write_json(document)
    elif getattr(args, "markdown", False):
        from lightning_gpuprof.report import markdown

        sys.stdout.write(markdown.render(document, verbose=verbose))
    else:
        # Imported here: --json needs none of it.
        from lightning_gpuprof.report.console import TALL_SCREEN, render_for

        most = TALL_SCREEN if document.subject.kind == "run" else None
        sys.stdout.write(render_for(document, sys.stdout, verbose=verbose, most_lines=most))
