"""`lightning-gpuprof lint`: the former name of `inspect`, for one release."""

import argparse
import sys

from lightning_gpuprof.cli import inspect
from lightning_gpuprof.cli.inspect import add_arguments

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> int:
    """Do what `inspect` does."""
    print("`lint` is now `inspect`; the old name goes with the next release.", file=sys.stderr)
    return inspect.run(args)
