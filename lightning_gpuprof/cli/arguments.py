"""Arguments that several commands share, and the types that argparse reads them with."""

import argparse
import os
import re
from typing import Any

from lightning_gpuprof.errors import ConfigError

_UNITS = {"": 1, "B": 1, "MB": 10**6, "GB": 10**9, "MIB": 2**20, "GIB": 2**30}


def add_form(parser: argparse.ArgumentParser) -> Any:
    """Declare --json and --markdown; return the group, to which a command may add other forms."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print the document of docs/reference/json.md"
    )
    form.add_argument(
        "--markdown",
        action="store_true",
        help="print Markdown for a pull request or $GITHUB_STEP_SUMMARY",
    )
    return form


def add_program(parser: argparse.ArgumentParser, script: str, into: str) -> None:
    """Declare --into, --json, and the script with its arguments, which `program_of` reads."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--into", metavar="RUN", help=f"log dir of a run of this script{into}")
    parser.add_argument("script", metavar="SCRIPT", help=f"training script{script}")
    rest = argparse.REMAINDER
    parser.add_argument("arguments", nargs=rest, metavar="...", help="arguments of the script")


def positive(text: str) -> int:
    """Read a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0. Pass 1 or more")
    return int(text)


def share(text: str) -> float:
    """Read a share: `5%` and `0.05` are the same.

    >>> share("5%"), share("0.05")
    (0.05, 0.05)
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6 or (value > 1 and not text.endswith("%")):
        # A bare 5 is meant as 5%. Read as five times, it would let every slow-down pass.
        raise argparse.ArgumentTypeError(f"{text!r} is not a share: pass 5% or 0.05")
    return value


def whole_numbers(text: str) -> list[int]:
    """Read numbers such as 8,16,32."""
    return [int(part) for part in text.split(",")]


def memory_size(text: str) -> int:
    """Read a size such as 24GiB, 80GB or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    # A bare 80 is meant as GiB, but would be read as bytes.
    unit_missing = match is not None and not match[2] and 0 < float(match[1]) < 2**20
    if match is None or unit is None or unit_missing:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size. Write it as 24GiB, 512MiB or 80GB"
        )
    return int(float(match[1]) * unit)


def program_of(args: argparse.Namespace) -> list[str]:
    """Return the script and its arguments, without the `python` or the `--` before them.

    Raises:
        ConfigError: There is no such script.
    """
    program = [args.script, *(args.arguments[args.arguments[:1] == ["--"] :])]
    if re.fullmatch(r"python[\d.]*", os.path.basename(args.script)):
        program = program[1:]
    if not program or (program[0] != "-m" and not os.path.isfile(program[0])):
        missing = program[0] if program else args.script
        raise ConfigError(f"There is no script {missing}. Pass the path of a Python file.")
    return program


def span(text: str) -> float:
    """Read a time in seconds.

    >>> span("90s"), span("10m"), span("1.5h")
    (90.0, 600.0, 5400.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time. Write it as 90s or 10m")
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]
