"""Runs every example project's before.py and after.py in turn: the numbers in their READMEs.

    python benchmarks/examples.py [--only dreamer_rssm ...] [--rounds 3] [--write]

Each script runs as a user runs it, in a process and with a compile cache of its own.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from datetime import date
from pathlib import Path
from typing import Any

from _harness import Spread, interleaved, machine, write_results

EXAMPLES = Path(__file__).parents[1] / "example_projects"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/before.py"))
KEPT_LINES = 12
MEASURED = re.compile(r"(?<=--write -->\n).*?(?=<!-- end of measured -->)", re.DOTALL)
"""The part of a README that `--write` replaces."""


class Script:
    """One script of an example; remembers what it printed last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.printed: list[str] = []

    def seconds(self) -> float:
        """Run it once and return how long the whole process took."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(self.path)]
            if (self.path.parent / "train.py").exists():
                command += ["--runs", folder]
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "compiled")}
            began = time.perf_counter()
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{self.path} failed:\n{done.stderr[-2000:]}")
        self.printed = done.stdout.splitlines()[-KEPT_LINES:]
        return took


def measure(name: str, rounds: int) -> dict[str, Any]:
    scripts = {side: Script(EXAMPLES / name / f"{side}.py") for side in ("before", "after")}
    seconds = interleaved({side: one.seconds for side, one in scripts.items()}, rounds=rounds)
    return {
        side: {"process_s": Spread.of(seconds[side]).as_dict(), "printed": one.printed}
        for side, one in scripts.items()
    }


def section(found: dict[str, Any], rounds: int) -> str:
    """Return the measured part of an example's README."""
    facts = machine()
    versions = facts["versions"]
    took = [found[side]["process_s"] for side in ("before", "after")]
    cells = [f"{one['median']:.1f} s ({one['low']:.1f}-{one['high']:.1f})" for one in took]
    printed = [
        f"{side}.py prints\n\n```text\n" + "\n".join(found[side]["printed"]) + "\n```\n"
        for side in ("before", "after")
    ]
    return "\n".join(
        [
            f"\nOn {facts['cores']} cores of an {facts['cpu']}, without a GPU, torch "
            f"{versions['torch']}, {date.today()}; runs of each, in turn: {rounds}; "
            "median (range):\n",
            "| | before | after |",
            "|---|---|---|",
            f"| the whole script | {cells[0]} | {cells[1]} |\n",
            *printed,
        ]
    )


def put_into(readme: Path, measured: str) -> None:
    text = readme.read_text(encoding="utf-8")
    readme.write_text(MEASURED.sub(lambda _: measured, text), encoding="utf-8")


def main() -> None:
    parser = ArgumentParser(description="Measure the example projects.")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the numbers into the READMEs")
    args = parser.parse_args()
    found = {}
    for name in args.only:
        found[name] = measure(name, args.rounds)
        for side, one in found[name].items():
            took = one["process_s"]
            print(f"{name} {side}: {took['median']:.1f} s ({took['low']:.1f}-{took['high']:.1f})")
            print("\n".join(f"    {line}" for line in one["printed"]), flush=True)
        readme = EXAMPLES / name / "README.md"
        if args.write and readme.exists():
            put_into(readme, section(found[name], args.rounds))
    if args.only == NAMES:
        print(write_results("examples", {"examples": found}))


if __name__ == "__main__":
    main()
