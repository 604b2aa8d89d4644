"""The injected causes, one file each; CAUSES lists them by name."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from cause import Cause

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
CAUSES: dict[str, Cause] = {
    name: replace(import_module(f"causes.{name}").CAUSE, name=name) for name in NAMES
}
