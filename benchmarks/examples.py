"""Runs every example project's before.py and after.py in turn: the numbers in their READMEs.

    python benchmarks/examples.py [--only dreamer_rssm ...] [--rounds 3] [--write] \
        [--json FILE] [--runs DIR] [--seconds S]
    python benchmarks/examples.py --from FILE --write

Each script runs as a user runs it, in a process and with a compile cache of its own, and the runs
that the last ones left are compared; `--runs` keeps them. Each has two minutes; one that fails
stops no other, and with `--seconds` none begins once the time is up. `--from` takes what was
measured before, perhaps on another machine: a GPU's figures stand beside a CPU's in the READMEs.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from _harness import Spread, interleaved, machine, write_results

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "example_projects"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/before.py"))
SIDES = ("before", "after")
KEPT_LINES = 12
LIMIT_S, ENDS_S = 120, 15
"""Of a script: what an example may take, and what its end may once that is over."""
STARTS = {
    "cpu": "<!-- measured: written by benchmarks/examples.py --write -->\n",
    "gpu": "<!-- measured on a GPU: written by benchmarks/examples.py --write -->\n",
}
END = "<!-- end of measured -->\n"


@dataclass
class Script:
    """One script of an example; remembers what it printed last.

    Args:
        path: Its file.
        runs: Folder for its log dirs.
        until: When it is stopped at the latest, by `time.monotonic`.
    """

    path: Path
    runs: Path
    until: float
    printed: list[str] = field(default_factory=list)

    def seconds(self) -> float:
        """Run it once and return how long the whole process took.

        Raises:
            RuntimeError: It failed or was stopped; holds what it wrote last.
        """
        command = [sys.executable, str(self.path)]
        if (self.path.parent / "train.py").exists():
            command += ["--runs", str(self.runs)]
        # Not into pipes: those whom a stopped script has started would hold them open.
        with tempfile.TemporaryDirectory() as folder, open(f"{folder}/out", "w+") as out, \
                open(f"{folder}/err", "w+") as err:  # fmt: skip
            environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"}
            began = time.monotonic()
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
            status = ended(process, max(0.0, min(LIMIT_S, self.until - began)))
            took = time.monotonic() - began
            printed, said = (Path(file.name).read_text(errors="replace") for file in (out, err))
        if status:
            raise RuntimeError(f"{self.path.name} {status}:\n{said[-2000:]}")
        self.printed = printed.splitlines()[-KEPT_LINES:]
        print(f"== {self.path.relative_to(ROOT)}: {took:.1f} s\n{said}{printed}", flush=True)
        return took

    def run(self) -> Path | None:
        """Return the log dir that it left last; None of a script that trains nothing."""
        name = f"{self.path.parent.name}-{self.path.stem}"
        versions = (self.runs / name).glob("version_*")
        return max(versions, key=lambda path: int(path.name.split("_")[1]), default=None)


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> str:
    """Wait for a script and return why it is no success; nothing where it is one."""
    try:
        code = process.wait(seconds)
        return f"failed ({code})" if code else ""
    except subprocess.TimeoutExpired:
        process.terminate()  # Lightning then ends the fit, and what the fit has started
        try:
            process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return f"was stopped after {seconds:.0f} s"


def measure(name: str, rounds: int, runs: Path, until: float) -> dict[str, Any]:
    """Return by side what a script took and printed, and the comparison of their runs.

    Raises:
        RuntimeError: A script failed.
    """
    scripts = {side: Script(EXAMPLES / name / f"{side}.py", runs, until) for side in SIDES}
    seconds = interleaved({side: one.seconds for side, one in scripts.items()}, rounds=rounds)
    found: dict[str, Any] = {
        side: {"process_s": Spread.of(seconds[side]).as_dict(), "printed": one.printed}
        for side, one in scripts.items()
    }
    before, after = (scripts[side].run() for side in SIDES)
    if before is not None and after is not None:
        found["compare"] = comparison(before, after)
    return found


def comparison(before: Path, after: Path) -> dict[str, Any]:
    """Return what `compare` says in a sentence, and the mean steps in ns; print all of it."""
    command = [sys.executable, "-m", "lightning_gpuprof.cli", "compare", str(before), str(after)]
    text, document = (
        subprocess.run([*command, *more], capture_output=True, text=True).stdout
        for more in ((), ("--json",))
    )
    print(text, flush=True)
    if not document:
        return {}
    full = json.loads(document)
    mean = next((one for one in full["steps"] if one["name"] == "mean_ns"), None)
    kept = {key: full[key] for key in ("sentence", "per_sample", "change_frac", "phases")}
    return {**kept, "mean_ns": mean}


def section(name: str, document: dict[str, Any]) -> str:
    """Return the measured part of an example's README."""
    found, facts = document["examples"][name], document["machine"]
    took = [found[side]["process_s"] for side in SIDES]
    rows = [("the whole script", *(_seconds(one) for one in took))]
    compared = found.get("compare") or {}
    if mean := compared.get("mean_ns"):
        what = f"a steady step, mean{', per sample' * compared['per_sample']}"
        rows += [(what, *(f"{mean[side] / 1e6:,.3g} ms" for side in ("base", "new")))]
    printed = [
        f"{side}.py prints\n\n```text\n" + "\n".join(found[side]["printed"]) + "\n```\n"
        for side in SIDES
    ]
    cores = f"{facts['cores']} cores of an {facts['cpu']}"
    where = f"an {facts['gpu']} with {cores}" if facts.get("gpu") else f"{cores}, without a GPU"
    runs = took[0]["count"]
    spread = f"; runs of each, in turn: {runs}; median (range)" if runs > 1 else ", one run of each"
    said = compared.get("sentence")
    said = f'`lightning-gpuprof compare` of the two: "{said}"\n\n' if said else ""
    return "\n".join(
        [
            f"\nOn {where}, torch {facts['versions']['torch']}, {document['date'][:10]}{spread}:\n",
            "| | before | after |",
            "|---|---|---|",
            *(f"| {' | '.join(row)} |" for row in rows),
            f"\n{said}{printed[0]}",
            printed[1],
        ]
    )


def _seconds(one: dict[str, float]) -> str:
    text = f"{one['median']:.1f} s"
    return text if one["count"] == 1 else f"{text} ({one['low']:.1f}-{one['high']:.1f})"


def put_into(readme: str, measured: str, *, on: str) -> str:
    """Return a README with its measured part renewed: a CPU's, or behind that a GPU's.

    One without such a part stays as it is.

    >>> put_into(STARTS["cpu"] + "old" + END, "new", on="cpu") == STARTS["cpu"] + "new" + END
    True
    """
    start = STARTS[on]
    if on == "gpu" and start not in readme:
        readme = readme.replace(END, f"{END}\n{start}{END}", 1)
    part = re.compile(f"(?<={re.escape(start)}).*?(?={re.escape(END)})", re.DOTALL)
    return part.sub(lambda _: measured, readme, count=1)


def write(document: dict[str, Any]) -> None:
    """Put what was measured into the READMEs."""
    for name, found in document["examples"].items():
        readme = EXAMPLES / name / "README.md"
        if "failure" not in found and readme.exists():
            on = "gpu" if document["machine"].get("gpu") else "cpu"
            text = readme.read_text(encoding="utf-8")
            readme.write_text(put_into(text, section(name, document), on=on), encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """Return what was measured before: the results of this script, or those of gpu.py."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    inner: dict[str, Any] = document["examples"]
    return inner if "machine" in inner else document


def gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def main() -> int:
    parser = ArgumentParser(description="Measure the example projects.")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the numbers into the READMEs")
    parser.add_argument("--json", type=Path, help="write the results here, as they come in")
    parser.add_argument("--runs", type=Path, help="keep the log dirs here")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--from", type=Path, dest="source", help="results measured before")
    args = parser.parse_args()
    if args.source is not None:
        write(read(args.source))
        return 0
    until = time.monotonic() + args.seconds
    found: dict[str, Any] = {}
    document = {
        "date": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "machine": {**machine(), "gpu": gpu()},
        "examples": found,
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.only:
            try:
                found[name] = measure(name, args.rounds, args.runs or Path(scratch), until)
            except RuntimeError as error:
                found[name] = {"failure": str(error).splitlines()}
                print(f"{name}: {error}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.write:
        write(document)
    if args.only == NAMES and not args.json:
        print(write_results("examples", document))
    return sum("failure" in one for one in found.values())


if __name__ == "__main__":
    sys.exit(main())
