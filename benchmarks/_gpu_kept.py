"""Where what a GPU run measured is kept: written anew as it comes in, and handed over at once."""

import ctypes
import json
import os
import re
import shutil
import tarfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

SMALL_BYTES, ALL_BYTES = 2**20, 12 * 2**20


def driver_answers() -> bool:
    """Tell whether a driver has a device, asked of itself and not of torch."""
    if os.path.exists("/dev/kfd"):  # AMD's, where there is a device of theirs
        return True
    for library in ("libcuda.so.1", "nvcuda.dll"):
        found = ctypes.c_int(0)
        try:
            driver = ctypes.CDLL(library)
            failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(found))
        except (OSError, AttributeError):
            continue
        if not failed and found.value:
            return True
    return False


def targets(stamp: datetime, *, real: bool, results: Path, pretended: Path) -> tuple[Path, Path]:
    """Return where results and fixtures are written: what no driver stands behind is no result."""
    if not real:
        print(
            "torch sees a GPU, and no driver of one answers: the device is pretended. Its figures "
            "mean nothing; they are marked as pretended, and kept out of benchmarks/results."
        )
    folder, mark = (results, "") if real else (pretended, "pretended-")
    folder.mkdir(exist_ok=True)
    name = f"gpu-{mark}{stamp:%Y-%m-%d-%H%M}"
    return folder / f"{name}.json", folder / f"{name}-fixtures.tar.gz"


def keep(result: dict[str, Any], work: Path, target: Path) -> None:
    """Write what there is so far, whole or not at all, and hand it over."""
    result.update(figures(work))
    part = target.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(target)
    hand_over(target)


def figures(work: Path) -> dict[str, Any]:
    """Return what the parts have measured so far, by part."""
    found: dict[str, Any] = {}
    for name in ("marks", "memory", "faults"):
        path = work / f"{name}.json"
        with suppress(FileNotFoundError, json.JSONDecodeError):  # it may be writing just now
            found[name] = json.loads(path.read_text())
    kept = work / "figures.jsonl"
    if kept.exists():
        whole = kept.read_text().rpartition("\n")[0]
        found["figures"] = [json.loads(line) for line in whole.splitlines()]
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
        # Summaries name a test once more, without its outcome.
        if begun and (ended or begun[1] not in tests):
            tests[begun[1]] = ended[1].lower() if ended else "not ended"
    return found | ({"tests": tests} if tests else {})


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
            part = shutil.copy(path, os.path.join(str(folder), f"{path.name}.part"))
            os.replace(part, os.path.join(str(folder), path.name))
        except OSError as error:
            print(f"{path.name} could not be copied to OUT={folder}: {error}")
