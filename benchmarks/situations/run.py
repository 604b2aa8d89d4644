"""Situations that people reported: what does the report say of each?

    python benchmarks/situations/run.py --out DIR one [NAME ...]    # or two, three

Trains each program and script of a set once under GpuProfCallback, writes each trace, and keeps
what `lightning-gpuprof report` or `analyze` prints in DIR/NAME.txt. People judge it by the `right:`
line of each docstring; `judged.json` has the verdicts. README.md says how the sets came about.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=["one", "two", "three"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    folder = HERE / args.set
    args.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*/*.py")):
        if args.names and path.stem not in args.names:
            continue
        for name, text in answers(path, args.out.resolve() / path.stem):
            (args.out / f"{name}.txt").write_text(text, encoding="utf-8")
            print(name, flush=True)


def answers(path: Path, run: Path):
    """Yield the names and what is printed of one situation; traces may be several."""
    run.mkdir(parents=True, exist_ok=True)
    kind = path.parent.name
    if kind == "programs":
        called(str(HERE / "train.py"), str(path), "--root", str(run))
    else:
        called(str(path), cwd=run, PROF="1", OUT=str(run))
    if kind != "traces":
        yield path.stem, called("-m", "lightning_gpuprof.cli", "report", str(run))
        return
    for file in sorted(run.iterdir()):
        yield file.name, called("-m", "lightning_gpuprof.cli", "analyze", str(file))


def called(*arguments: str, cwd: Path | None = None, **variables: str) -> str:
    paths = os.pathsep.join((str(PACKAGE), str(HERE)))  # HERE for `clock` of the scripts
    environment = {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | environment | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    return done.stdout


if __name__ == "__main__":
    main()
