"""`lightning-gpuprof analyze FILE...`: where the time of a trace, or of a job's ranks, went."""

import argparse
import os
import sys

from lightning_gpuprof.cli.arguments import positive
from lightning_gpuprof.cli.output import complain, write_document, write_json
from lightning_gpuprof.errors import ConfigError, GpuProfError, UnknownTraceError
from lightning_gpuprof.records.remote import local_path
from lightning_gpuprof.report.document import Document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="trace files, whose format is detected, or a folder with all ranks' traces of a job",
    )
    add("--json", action="store_true", help="print the document of docs/reference/json.md")
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--step", type=int, metavar="N", help="analyse only ProfilerStep#N, or in inference call N"
    )
    steady = "analyse all steps but the first of the trace"
    part.add_argument("--steady", action="store_true", help=steady)
    add(
        "--stacks",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read Python stacks, to name source lines and what ran while a device was idle",
    )
    add("--top", type=positive, default=10, metavar="N", help="rows per table (default: 10)")
    add(
        "--verbose",
        action="store_true",
        help="also show all changes, rows, launches, roofs, faults",
    )


def run(args: argparse.Namespace) -> int:
    """Analyse each file and print it."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here multiplies matrices
    args.files = [local_path(path) for path in args.files]
    if (job := _job(args)) is not None:
        write_document(job, args, verbose=args.verbose)
        return 0
    documents, failed = [], 0
    for path in args.files:
        try:
            document = _document(path, args)
        except GpuProfError as error:
            if len(args.files) == 1:
                raise
            complain(str(error))
            failed = 2  # as for any request that cannot be met
            continue
        if args.json and len(args.files) > 1:
            documents.append(document)
        else:
            write_document(document, args, verbose=args.verbose)
            sys.stdout.flush()
    if documents:
        write_json(documents)
    return failed


def _job(args: argparse.Namespace) -> Document | None:
    """Return the document of a job whose ranks' traces were given; None for other files."""
    if len(args.files) == 1 and not os.path.isdir(args.files[0]):
        return None
    # Imported here: other commands and --help need none of it.
    from lightning_gpuprof.analysis.job.read_job import job_files, read_job
    from lightning_gpuprof.report.build_job import job_document
    from lightning_gpuprof.report.progress import Progress

    files = job_files(args.files)
    if files is None:
        return None
    if args.step is not None or args.steady:
        raise ConfigError(
            "--step and --steady are for one trace, and these are those of a job's ranks. "
            "Give one of the files."
        )
    progress = Progress("reading ranks", after_s=1.0) if sys.stderr.isatty() else None
    name = os.path.basename(os.path.abspath(args.files[0] if len(args.files) == 1 else "."))
    return job_document(read_job(files, progress=progress), name)


def _document(path: str, args: argparse.Namespace) -> Document:
    # Imported here: other commands and --help need none of it.
    from lightning_gpuprof.analysis.trace_analysis import analyze_file
    from lightning_gpuprof.report.progress import Progress
    from lightning_gpuprof.traces import ReadOptions

    progress = Progress("reading", after_s=1.0) if sys.stderr.isatty() else None
    options = ReadOptions(stacks=args.stacks, progress=progress)
    try:
        analysis = analyze_file(path, options, step=args.step, steady=args.steady)
    except UnknownTraceError:
        from lightning_gpuprof.report.build_file import build_file

        other = build_file(path, first_rows=args.top)
        if other is None:
            raise
        return other
    # Imported when the trace's own memory is free again.
    from lightning_gpuprof.report.build_trace import trace_document

    return trace_document(analysis, first_rows=args.top)
