"""Trains programs of other packages, each in its environment, with and without the callback.

    python benchmarks/programs/run.py [NAME ...]     # some: the others keep today's result

Environments lie in ~/.cache/lightning_gpuprof/programs, over the packages of this Python: torch
stays the one at hand. Each program trains twice in one process with a fixed seed: losses, random
streams, weights, optimizer states and copies of the trainer must be as without the callback.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import RESULTS, one_thread, report, table, write_results

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CACHE = Path.home() / ".cache" / "lightning_gpuprof" / "programs"


def environment(name: str, requires: str) -> str:
    """Return the Python of a program's environment, which is made where it is missing."""
    folder, wanted = CACHE / name, f"{requires} over {sys.prefix}"
    python, made = folder / "bin" / "python", folder / "made"
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, symlinks=True)
        packages = next(folder.glob("lib/python*/site-packages"))
        (packages / "over.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        pinned = ["--no-compile", "-c", str(REPOSITORY / "constraints.txt"), "torch==2.13.0"]
        subprocess.run([*pip, *pinned, *requires.split()], check=True)
        made.write_text(wanted)
    return str(python)


def output(*command: str) -> Any:
    """Return the last line that a command prints, as JSON."""
    where = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, capture_output=True, text=True, env=where, timeout=3600)
    if done.returncode:
        raise RuntimeError(f"{command[1]} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def look(row: dict[str, Any], root: Path) -> dict[str, Any]:
    shutil.rmtree(root, ignore_errors=True)
    train = [environment(row["name"], row["requires"]), str(HERE / "train.py"), json.dumps(row)]
    bare, profiled = (output(*train, str(root / how), how) for how in ("bare", "profiled"))
    runs = sorted(path.parents[2] for path in root.rglob("rank0.jsonl"))
    found = report(runs[0])
    first = next(iter(found.findings), None)
    row = next(iter(found.rows("lines")), None)
    line = row and row["place"]
    said = [
        first and f"{first.id}: {first.title}",
        line and f"{Path(line.file).name}:{line.line} {line.function} > {row['callee']}",
    ]
    return {
        "steps": profiled[0]["steps"],
        "same_results": [one["results"] for one in bare] == [one["results"] for one in profiled],
        "same_copies": bare[1]["copies"] == profiled[1]["copies"],
        "copies": profiled[1]["copies"],
        "fits_recorded": len(runs),
        "first_finding": said[0],
        "first_line": said[1],
    }


def page(rows: dict[str, Any], found: dict[str, Any]) -> str:
    head = ("program", "results, copies", "first finding", "first line", "true cost", "named")
    lines = []
    for name, one in sorted(found.items()):
        same = ["same" if one[key] else "**differ**" for key in ("same_results", "same_copies")]
        cells = [rows[name]["requires"], ", ".join(same), one["first_finding"]]
        said = f"{one['first_finding']} {one['first_line']}"
        misled = any(part in one["first_finding"] for part in rows[name].get("wrong", []))
        right = any(part in said for part in rows[name]["right"]) and not misled
        named = "yes" if right else "**no**"
        lines.append([*cells, one["first_line"], rows[name]["why"], named])
    return "\n".join(["# Programs of other packages", "", *table(head, lines), ""])


def main() -> int:
    rows = yaml.safe_load((HERE / "programs.yaml").read_text(encoding="utf-8"))
    one_thread()
    kept = RESULTS / f"programs-{datetime.now(timezone.utc):%Y-%m-%d}.json"
    found = json.loads(kept.read_text())["programs"] if kept.exists() else {}
    for name in sys.argv[1:] or rows:
        found[name] = look({"name": name, **rows[name]}, REPOSITORY / "runs" / "programs" / name)
        print(name, json.dumps(found[name], indent=1), flush=True)
        write_results("programs", {"programs": found}, page=page(rows, found))
    return sum(not (one["same_results"] and one["same_copies"]) for one in found.values())


if __name__ == "__main__":
    raise SystemExit(main())
