"""Everything that needs a GPU, on a bare machine: `python3 benchmarks/gpu.py [PART ...]`.

Needs no installation: the package is imported from this checkout. Each part runs in a process of
its own, within its time; one that fails does not stop the others. Writes
`benchmarks/results/gpu-<date>.json`, and small real traces and records as
`gpu-fixtures.tar.gz` beside it. Where the variable OUT names a folder, copies of both go there.
"""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
NEEDED = {
    "torch": "torch",
    "lightning": "lightning",
    "tensorboard": "tensorboard",
    "numpy": "numpy",
    "msgspec": "msgspec",
    "yaml": "pyyaml",
    "rich": "rich",
    "plotly": "plotly",
    "typing_extensions": "typing_extensions",
    "pytest": "pytest",
}
BETTER_WITH = {"isal": "isal", "hypothesis": "hypothesis", "pynvml": "nvidia-ml-py"}
SMALL_BYTES = 3 * 2**20


def parts(work: Path) -> dict[str, tuple[list[str], int]]:
    """By name: what to run, and for how many seconds at most."""
    python = sys.executable
    tests = ["-m", "pytest", "tests/gpu", "-q", "-p", "no:cacheprovider", "--durations=10"]
    found = {
        "tests": ([python, *tests], 200),
        "marks": ([python, "benchmarks/gpu_marks.py", "--json", str(work / "marks.json")], 90),
        "example": (
            [python, "example_projects/char_lm/demo.py", "--runs", str(work / "runs")],
            120,
        ),
    }
    if (ROOT / "benchmarks" / "overhead.py").exists():
        found["overhead"] = ([python, "benchmarks/overhead.py"], 120)
    return found


def main() -> int:
    missing = [name for module, name in NEEDED.items() if not importlib.util.find_spec(module)]
    if missing:
        print(f"Missing here: {' '.join(missing)}. Install them, or put them on PYTHONPATH.")
        return 2
    lacking = [name for module, name in BETTER_WITH.items() if not importlib.util.find_spec(module)]
    if lacking:
        print(f"Not here, done without: {' '.join(lacking)}.")
    import torch

    if not torch.cuda.is_available():
        print("No CUDA or ROCm device is visible to torch on this machine: nothing was measured.")
        return 1
    work = Path(os.environ.get("TMPDIR", "/tmp")) / f"gpuprof-gpu-{os.getpid()}"
    work.mkdir(parents=True)
    wanted = sys.argv[1:]
    outcome = {
        name: run(name, command, seconds, work)
        for name, (command, seconds) in parts(work).items()
        if not wanted or name in wanted
    }
    result = {"machine": machine(), "parts": outcome}
    marks = work / "marks.json"
    if marks.exists():
        result["marks"] = json.loads(marks.read_text())
    stamp = datetime.now(timezone.utc)
    result["when"] = stamp.isoformat(timespec="seconds")
    RESULTS.mkdir(exist_ok=True)
    written = [RESULTS / f"gpu-{stamp:%Y-%m-%d-%H%M}.json", RESULTS / "gpu-fixtures.tar.gz"]
    written[0].write_text(json.dumps(result, indent=1) + "\n")
    pack(work, written[1])
    for path in written:
        if os.environ.get("OUT"):
            shutil.copy(path, os.environ["OUT"])
    summarize(result, written)
    shutil.rmtree(work, ignore_errors=True)
    return sum(part["status"] != "passed" for part in outcome.values())


def run(name: str, command: list[str], seconds: int, work: Path) -> dict[str, Any]:
    """Run one part; whatever happens to it, say so and go on."""
    print(f"\n== {name} ({seconds} s at most): {' '.join(command[1:])}", flush=True)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    log = work / f"{name}.log"
    begin = time.monotonic()
    status = "passed"
    with open(log, "wb") as file:
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            )
            if done.returncode:
                status = f"failed ({done.returncode})"
        except subprocess.TimeoutExpired:
            status = f"stopped after {seconds} s"
        except OSError as error:
            status = f"could not be started: {error}"
    tail = log.read_text(errors="replace").splitlines()[-60:]
    print("\n".join(tail), flush=True)
    return {"status": status, "seconds": round(time.monotonic() - begin, 1), "tail": tail[-25:]}


def machine() -> dict[str, Any]:
    import torch

    facts = torch.cuda.get_device_properties(0)
    packages = {}
    for name in (*NEEDED.values(), *BETTER_WITH.values()):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "gpu": facts.name,
        "gpu_bytes": facts.total_memory,
        "driver": driver(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "packages": packages,
        "commit": said(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
    }


def driver() -> str | None:
    return said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])


def said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None


def pack(work: Path, target: Path) -> None:
    """Keep what is small enough to become a test's input: records, traces, their analyses."""
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted((work / "runs").rglob("plugins/gpuprof/*")):
            if path.is_file() and path.stat().st_size <= SMALL_BYTES:
                archive.add(path, arcname=str(path.relative_to(work)))
        for path in sorted(work.glob("*.log")):
            archive.add(path, arcname=path.name)


def summarize(result: dict[str, Any], written: list[Path]) -> None:
    facts = result["machine"]
    print(f"\n{facts['gpu']}, driver {facts['driver']}, torch {facts['packages']['torch']}")
    for name, part in result["parts"].items():
        print(f"  {name:10} {part['status']:22} {part['seconds']:7.1f} s")
    for name, value in result.get("marks", {}).items():
        print(f"  {name:38} {value}")
    print("Written:", *written)


if __name__ == "__main__":
    raise SystemExit(main())
