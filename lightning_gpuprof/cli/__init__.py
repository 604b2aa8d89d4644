"""The command `lightning-gpuprof`: COMMANDS is its registry, one module per command."""

import argparse
import codecs
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from lightning_gpuprof import __version__
from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.units import ascii_only

_START = """\
to begin with:
  Trainer(callbacks=[GpuProfCallback()])    in your program: train as usual
  lightning-gpuprof report                  the newest run in ./lightning_logs, or nearby
  tensorboard --logdir lightning_logs       the same and more in its PROFILE tab
"""


FAILED = 70
"""Exit status after an unexpected error (EX_SOFTWARE of sysexits.h)."""
COMMANDS = {
    "demo": "train a small program, say why it is slow, and measure the change that it needs",
    "report": "say where a run's time went and why",
    "capture": "record some steps and lines of a run that trains now",
    "compare": "say what changed between two runs or traces",
    "analyze": "say where a trace file's time went",
    "inspect": "run a script for a few steps and name the lines that wait or work for nothing",
    "plan": "predict the batch size that fits a card",
    "try": "measure what a change gains, in short runs of the script itself",
    "doctor": "say what this machine has and can measure",
}
"""Help by command. The module of the same name is imported when the command runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status, which is 2 if the request cannot be met."""
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = _parser(argv)
    _print_anywhere()
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(argv)
    module = load_command(args.command)
    try:
        status: int = module.run(args)
        sys.stdout.flush()
    except GpuProfError as error:
        _complain(str(error))
        return 2
    except BrokenPipeError:
        # The reader of the pipe (`| head`) has ended: give Python a stdout to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _complain(f"{problem}. Pass a path that you may use.")
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last resort: users get a sentence and a log file, no traceback
        _complain(_logged(error, argv))
        return FAILED
    return status


def _complain(text: str) -> None:
    # Imported here: --help needs none of it.
    from lightning_gpuprof.cli.output import complain

    complain(text)


def _logged(error: Exception, argv: Sequence[str]) -> str:
    """Write the traceback of an unexpected error to a log file; return a sentence that names it."""
    # Imported here: only a command that fails needs them.
    import shlex
    import tempfile
    import traceback

    summary = traceback.format_exception_only(type(error), error)[-1].strip()[:200]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="lightning-gpuprof-", suffix=".log", delete=False, errors="replace"
        ) as log:
            log.write(f"lightning-gpuprof {__version__} {shlex.join(argv)}\n")
            log.writelines(traceback.format_exception(type(error), error, error.__traceback__))
    except OSError as full:
        return f"{summary}. No log file could be written: {full}."
    return f"{summary}. The traceback is in {log.name}. Please report it, unless your code failed."


def _print_anywhere() -> None:
    """Write characters that the terminal's encoding lacks, such as the µ of µs, as ASCII."""

    def replaced(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return ascii_only(error.object[error.start : error.end]), error.end

    codecs.register_error("gpuprof-plain", replaced)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="gpuprof-plain")


def entry() -> int:
    """Run one command in a process that ends with it: the console script."""
    status = main()
    if "torch" not in sys.modules:
        # No user's code ran: skip the teardown, which takes a tenth of a small trace's time.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lightning-gpuprof",
        description="Know why a PyTorch Lightning training run is slow.",
        epilog=_START,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lightning-gpuprof {__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=parser.prog
    )
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        if name in argv:
            load_command(name).add_arguments(sub)
    return parser


def load_command(name: str) -> ModuleType:
    """Import the module of a command, which defines `add_arguments(parser)` and `run(args)`."""
    return import_module(f"lightning_gpuprof.cli.{name}")
