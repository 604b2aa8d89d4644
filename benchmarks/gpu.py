"""Everything that needs a GPU, on a bare machine: `python3 benchmarks/gpu.py [PART ...]`.

Needs no installation: the package is imported from this checkout, and what else is missing comes
from `wheels/` (`make wheels` fills it) or, where there is a network, from the package index, into a
folder that is dropped afterwards; stand-ins replace msgspec and pytest where they are not to be
had. Each part runs in a process of its own, within its time; one that fails, hangs or cannot run
does not stop the others, and the results hold what it said. After each part
`benchmarks/results/gpu-<date>.json` is written anew, at the end `gpu-fixtures.tar.gz` (small real
traces, records and snapshots) beside it, and copies of both into the folder that the variable OUT
names. What is promised of a GPU is printed as PASS or FAIL, each with its figure. The exit status
is the number of parts that did not pass.
"""

import importlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from _figures import shown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WHEELS = ROOT / "wheels"
STAND_IN = ROOT / "benchmarks" / "stand_in"
WHOLE_S = 470
"""From the first moment on, so that eight minutes hold; a part may take what is left of it, at
most its own limit."""
FETCH_S = 40
"""For all that is fetched: where the network swallows what is sent, nobody says so."""
FAILURES_CHARS = 20_000
BEGUN = time.monotonic()
SMALL_BYTES, ALL_BYTES = 2**20, 12 * 2**20

NEEDED = {
    "torch": "torch",
    "lightning": "lightning",
    "numpy": "numpy",
    "typing_extensions": "typing_extensions",
    "msgspec": "msgspec",
    "yaml": "pyyaml",
}
"""By module the package that every part needs; then those that make it better."""
BETTER_WITH = {"isal": "isal", "pynvml": "nvidia-ml-py", "rich": "rich", "pytest": "pytest"}
FETCHED = ("msgspec", "pyyaml", "rich", "isal", "nvidia-ml-py")
"""May be fetched: they are small and bring nothing else along, torch least of all."""


@dataclass(frozen=True)
class Part:
    """One process: its arguments, its time, and modules without which it is left out."""

    arguments: tuple[str, ...]
    limit_s: int
    needs: tuple[str, ...] = ()


def parts(work: Path) -> dict[str, Part]:
    """By name, the most important first: what is right, then what it costs. Each file of tests has
    a process of its own: an error that CUDA keeps, or a crash, ends that one alone."""

    def measures(name: str, limit_s: int, *options: str) -> Part:
        script, result = f"benchmarks/gpu_{name}.py", str(work / f"{name}.json")
        seconds = str(limit_s - 20)
        return Part((script, "--json", result, "--seconds", seconds, *options), limit_s)

    return {
        "tests-timing": Part(tests_of("timing", work), 100),
        "tests-sync_detector": Part(tests_of("sync_detector", work), 50),
        "tests-promises": Part(tests_of("promises", work), 100),
        "tests-assumptions": Part(tests_of("assumptions", work), 80),
        "tests-capture": Part(tests_of("capture", work), 70),
        "memory": measures("memory", 120),
        "tests-memory": Part(tests_of("memory", work), 70),
        "faults": measures("faults", 90, "--runs", str(work / "runs" / "faults")),
        "marks": measures("marks", 90),
        "example": Part(
            ("example_projects/char_lm/demo.py", "--runs", str(work / "runs" / "example")),
            80,
            ("tensorboard", "rich"),
        ),
    }


def tests_of(name: str, work: Path) -> tuple[str, ...]:
    """Return the arguments that run one file of tests, with pytest or without."""
    file = f"tests/gpu/test_{name}_on_gpu.py"
    if absent(["pytest"]):
        return ("benchmarks/without_pytest.py", file)
    options = ("-v", "-rP", "--tb=short", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=60")
    return ("-m", "pytest", file, *options, f"--basetemp={work / 'runs' / name}", "--durations=5")


def main() -> int:
    known = list(parts(Path()))
    wanted = sys.argv[1:] or known
    if unknown := sorted(set(wanted) - set(known)):
        print(f"No part is called {', '.join(unknown)}. There are: {', '.join(known)}.")
        return 2
    if not has_gpu():
        return 1
    stamp = datetime.now(timezone.utc)
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"gpu-{stamp:%Y-%m-%d-%H%M}.json"
    fixtures = RESULTS / "gpu-fixtures.tar.gz"
    with tempfile.TemporaryDirectory(prefix="gpuprof-gpu-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        (work / "runs").mkdir()
        os.environ["FIGURES"] = str(work / "figures.jsonl")
        fetch_missing(work / "site")
        result: dict[str, Any] = {"when": stamp.isoformat(timespec="seconds"), "machine": machine()}
        result["parts"] = outcome = {}
        for name, part in parts(work).items():
            if name in wanted:
                left_s = WHOLE_S - (time.monotonic() - BEGUN)
                outcome[name] = run(name, part, left_s, work)
                result.update(figures(work))
                target.write_text(json.dumps(result, indent=1) + "\n")
                hand_over(target)  # already now: whoever waits may lose patience
        pack(work, fixtures)
    hand_over(target, fixtures)
    summarize(result, target, fixtures)
    return sum(part["status"] != "passed" for part in outcome.values())


def has_gpu() -> bool:
    """Tell whether torch sees a GPU; say what is missing where it does not."""
    if not importlib.util.find_spec("torch"):
        print("Missing here: torch, for the GPU at hand. Nothing was measured.")
        return False
    import torch

    if not torch.cuda.is_available():
        print("No CUDA or ROCm device is visible to torch on this machine: nothing was measured.")
    return torch.cuda.is_available()


def absent(modules: Any) -> list[str]:
    return [module for module in modules if not importlib.util.find_spec(module)]


def fetch_missing(site: Path) -> None:
    """Install what is missing and small into a folder, and put that on the import path."""
    names = NEEDED | BETTER_WITH
    lacking = [names[module] for module in absent(names) if names[module] in FETCHED]
    where = ["--no-index", "--find-links", str(WHEELS)] if WHEELS.is_dir() else []
    until = time.monotonic() + FETCH_S
    # One by one: those that are not to be had must not keep the others away.
    for name in lacking:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "0"]
        options = ["--timeout", "10", "--disable-pip-version-check", "--target", str(site)]
        if (left_s := until - time.monotonic()) > 1:
            said([*pip, *options, *where, name], seconds=left_s)
    if lacking:
        put_on_path(site)
    if absent(["msgspec"]):
        print(
            "Not here: msgspec. A stand-in in plain Python takes its place; traces are read slowly."
        )
        put_on_path(STAND_IN)
    still = [NEEDED[module] for module in absent(NEEDED)]
    if still:
        print(
            f"Missing here: {' '.join(still)}, and no package index answers. On a machine with one "
            "run `make wheels`, bring the folder wheels/ into this checkout, and run this again."
        )
    if better := [BETTER_WITH[module] for module in absent(BETTER_WITH)]:
        print(f"Not here, done without: {' '.join(better)}.")


def put_on_path(folder: Path) -> None:
    """Let this process and those it starts import from a folder."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def run(name: str, part: Part, left_s: float, work: Path) -> dict[str, Any]:
    """Run one part; whatever happens to it, say so and go on."""
    if missing := absent((*NEEDED, *part.needs)):
        print(f"\n== {name}: left out, since {', '.join(missing)} cannot be imported here.")
        return {"status": f"left out: no {', '.join(missing)}", "seconds": 0.0, "tail": []}
    seconds = min(part.limit_s, left_s)
    if seconds < 10:
        print(f"\n== {name}: left out, since the parts before it took all {WHOLE_S} s.")
        return {"status": "left out: no time", "seconds": 0.0, "tail": []}
    print(f"\n== {name} ({seconds:.0f} s at most): {' '.join(part.arguments)}", flush=True)
    paths = [str(ROOT), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    log = work / f"{name}.log"
    begin = time.monotonic()
    status = "passed"
    with open(log, "wb") as file:
        try:
            done = subprocess.run(
                [sys.executable, *part.arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            )
            if done.returncode:
                status = f"failed ({done.returncode})"
        except subprocess.TimeoutExpired:
            status = f"stopped after {seconds:.0f} s"
        except OSError as error:
            status = f"could not be started: {error}"
    text = log.read_text(errors="replace")
    lines = text.splitlines()
    print("\n".join(lines[-60:]), flush=True)
    seconds = round(time.monotonic() - begin, 1)
    passed = status == "passed"
    row = {"status": status, "seconds": seconds, "tail": lines[-5 if passed else -60 :]}
    _, found, failures = text.partition(" FAILURES ")
    return row | ({"failures": failures[:FAILURES_CHARS].splitlines()[1:]} if found else {})


def figures(work: Path) -> dict[str, Any]:
    """Return what the parts have measured so far, by part."""
    found: dict[str, Any] = {}
    for name in ("marks", "memory", "faults"):
        path = work / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
    kept = work / "figures.jsonl"
    if kept.exists():
        found["figures"] = [json.loads(line) for line in kept.read_text().splitlines()]
    # From the logs, which also hold the tests that ran before a part was stopped, and the one that
    # it was stopped in: its line has no outcome.
    lines = [
        line
        for log in sorted(work.glob("tests-*.log"))
        for line in log.read_text(errors="replace").splitlines()
    ]
    tests: dict[str, str] = {}
    for line in lines:
        begun = re.match(r"tests/gpu/(\S+?::[^\[\s]+(?:\[.*?\])?)", line)
        ended = re.search(r"\b(PASSED|FAILED|ERROR|SKIPPED)\b", line)
        if begun:
            tests[begun[1]] = ended[1].lower() if ended else "not ended"
    return found | ({"tests": tests} if tests else {})


def machine() -> dict[str, Any]:
    import torch

    facts = torch.cuda.get_device_properties(0)
    packages = {}
    for name in (*NEEDED.values(), *BETTER_WITH.values(), "tensorboard"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = None
    return {
        "gpu": facts.name,
        "gpu_bytes": facts.total_memory,
        "gpus": torch.cuda.device_count(),
        "capability": list(torch.cuda.get_device_capability(0)),
        "driver": said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "packages": packages,
        "commit": said(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
    }


def said(command: list[str], *, seconds: float = 20) -> str | None:
    """Return the first line that a command prints; None where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines and not done.returncode else None


def pack(work: Path, target: Path) -> None:
    """Keep what is small enough to become a test's input: records, traces, their analyses."""
    left = ALL_BYTES
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(work.glob("*.log")):
            archive.add(path, arcname=path.name)
        kept = ("plugins/gpuprof/*", "*.memory.pickle")
        named = {path for name in kept for path in (work / "runs").rglob(name)}
        found = (path for path in named if path.is_file() and not path.is_symlink())
        for path in sorted(found, key=lambda path: (path.stat().st_size, path)):
            if path.stat().st_size <= min(SMALL_BYTES, left):
                left -= path.stat().st_size
                archive.add(path, arcname=str(path.relative_to(work)))


def hand_over(*written: Path) -> None:
    folder = os.environ.get("OUT")
    for path in written if folder and os.path.isdir(folder) else ():
        try:
            shutil.copy(path, str(folder))
        except OSError as error:
            print(f"{path.name} could not be copied to OUT={folder}: {error}")


def summarize(result: dict[str, Any], *written: Path) -> None:
    """Print what passed, what did not, and the figures."""
    facts = result["machine"]
    print(f"\n{facts['gpu']}, driver {facts['driver']}, torch {facts['packages']['torch']}")
    for name, value in result.get("marks", {}).items():
        print(f"  {name:24} {json.dumps(value)}")
    for name, row in result.get("memory", {}).get("models", {}).items():
        brief = {key: value for key, value in row.items() if key != "failure"}
        print(f"  {name:24} {json.dumps(brief)}")
    print()
    for row in result.get("figures", []):
        print(f"  {shown(row)}")
    tests = result.get("tests", {})
    for name, status in tests.items():
        if status not in ("passed", "skipped"):
            print(f"  {status}: {name}")
    if tests:
        print(f"  {sum(s == 'passed' for s in tests.values())} of {len(tests)} tests passed")
    print("\nPart                 Outcome                   Time")
    for name, part in result["parts"].items():
        print(f"{name:20} {part['status']:25} {part['seconds']:5.1f} s")
    print("Written:", *written)


if __name__ == "__main__":
    raise SystemExit(main())
