"""`finish-trace`: compress, analyse and draw a trace that a training run has just written.

A training run starts this by itself, as a process of its own at the lowest priority. By hand it
finishes a trace that a killed run left behind.
"""

import argparse
import gzip
import os
import shutil
import sys
from contextlib import suppress
from importlib import import_module

from lightning_gpuprof.errors import GpuProfError, TraceError
from lightning_gpuprof.low_priority import step_back
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.views.documents.stored_analysis import write_analysis

GZIP_LEVEL = 3
"""On real traces: a third larger than level 9, at fourteen times its speed."""
_CHUNK_BYTES = 1 << 20
_PLAIN_SUFFIX = ".json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "trace", metavar="TRACE", help="plain trace, such as rank0-cycle0.pt.trace.json"
    )
    parser.add_argument(
        "--keep-priority",
        action="store_true",
        help="run at the caller's priority instead of the lowest",
    )


def run(args: argparse.Namespace) -> int:
    """Compress, analyse, draw, delete the plain file; returns 1 where one of the two failed."""
    if not args.keep_priority:
        # Also done from outside, by the process that starts this one; the kernel takes a group's
        # priority only ten times a second.
        step_back(os.getpid())
    packed = compress(args.trace)
    try:
        write_analysis(packed)
        import_module("lightning_gpuprof.views.tab.timeline_tiles").write_tiles(packed)
    except GpuProfError as error:
        print(f"{packed} was compressed but not analysed or drawn: {error}", file=sys.stderr)
        return 1
    return 0


def compress(plain: str) -> str:
    """Replace a plain trace by `<plain>.gz` and return that name.

    Another process may be at the same: both write the same bytes, each to a file of its own. Where
    one that did this before was stopped after it, there is nothing left to do.

    Raises:
        TraceError: There is no such file, or it is compressed already.
    """
    packed = plain + ".gz"
    if plain.endswith(_PLAIN_SUFFIX) and not os.path.exists(plain) and os.path.isfile(packed):
        return packed
    if not plain.endswith(_PLAIN_SUFFIX) or not os.path.isfile(plain):
        raise TraceError(
            f"{plain} is not a plain trace file. Pass a .json file that a run has left behind."
        )
    try:
        with (
            open(plain, "rb") as source,
            written_whole(packed) as part,
            open(part, "wb") as target,
            # No name and no time inside: the same trace gives the same bytes.
            gzip.GzipFile("", "wb", GZIP_LEVEL, target, mtime=0) as stream,
        ):
            shutil.copyfileobj(source, stream, _CHUNK_BYTES)
    except FileNotFoundError:
        if os.path.isfile(packed):  # the other one was done in this very moment
            return packed
        raise
    with suppress(FileNotFoundError):
        os.unlink(plain)
    return packed
