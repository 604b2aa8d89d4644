"""`lightning-gpuprof demo`: a small program, profiled before and after the change it needs."""

import argparse
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from lightning_gpuprof.cli.arguments import positive
from lightning_gpuprof.errors import ConfigError

PROGRAM = "char_lm"
PLACES = (Path(__file__).parent, Path(__file__).parents[2] / "example_projects")
"""Where the program is in an installed wheel, and in a clone."""
NEEDS = ("lightning", "tensorboard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--folder",
        default="gpuprof-demo",
        metavar="FOLDER",
        help="where the program is written, to read and to change, and its runs; files that are "
        "there already stay as they are (default: gpuprof-demo)",
    )
    parser.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="batches to train, 100 or more (default: 300)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the program and let it train, report, and measure; return 1 if it fails.

    Raises:
        ConfigError: A package is missing that the program needs.
    """
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise ConfigError(f"The demo needs what is not installed: pip install {' '.join(missing)}")
    folder = Path(args.folder)
    program = _written(folder / PROGRAM)
    command = [sys.executable, str(program / "demo.py"), "--runs", str(folder / "runs")]
    if args.steps:
        command += ["--steps", str(args.steps)]
    return 1 if subprocess.run(command, check=False).returncode else 0


def _written(folder: Path) -> Path:
    """Copy the program's files into a folder, except those that it has, and return the folder."""
    source = next(place / PROGRAM for place in PLACES if (place / PROGRAM).is_dir())
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.py")):
        if not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name)
    return folder
