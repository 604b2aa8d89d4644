"""Keeps the figures of a GPU run: written anew as they come in, and copied to OUT at once."""

import ctypes
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
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
    try:
        part.write_text(json.dumps(result, indent=1) + "\n")
        part.replace(target)
    except OSError as error:  # no reason not to measure the rest
        print(f"{target} could not be written: {error}")
    hand_over(target)


def figures(work: Path) -> dict[str, Any]:
    """Return what the parts have measured so far, by part."""
    found: dict[str, Any] = {}
    for name in ("marks", "memory", "faults", "examples"):
        path = work / f"{name}.json"
        with suppress(OSError, ValueError):  # it may be writing just now
            found[name] = json.loads(path.read_text())
    rows = []
    for line in _text(work / "figures.jsonl").splitlines():
        with suppress(ValueError):  # a part was stopped in the middle of one
            rows.append(json.loads(line))
    if rows:
        found["figures"] = rows
    # From the logs, which also hold the tests that ran before a part was stopped, and the one that
    # it was stopped in: its line has no outcome.
    lines = [line for log in sorted(work.glob("tests-*.log")) for line in _text(log).splitlines()]
    tests: dict[str, str] = {}
    for line in lines:
        begun = re.match(r"tests/gpu/(\S+?::[^\[\s]+(?:\[.*?\])?)", line)
        ended = re.search(r"\b(PASSED|FAILED|ERROR|SKIPPED)\b", line)
        # Summaries name a test once more, without its outcome.
        if begun and (ended or begun[1] not in tests):
            tests[begun[1]] = ended[1].lower() if ended else "not ended"
    return found | ({"tests": tests} if tests else {})


def _text(path: Path) -> str:
    """Return a file's text; none of one that is not there."""
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def pack(work: Path, target: Path) -> None:
    """Keep what is small enough to become a test's input: records, traces, their analyses.

    What vanishes meanwhile is left out.
    """
    left, part = ALL_BYTES, target.with_suffix(".part")
    try:
        with tarfile.open(part, "w:gz") as archive:
            for path in sorted(work.glob("*.log")):
                _add(archive, path, path.name)
            for size, path in sorted(_small_files(work / "runs")):
                if size <= left:
                    left -= size
                    _add(archive, path, str(path.relative_to(work)))
        part.replace(target)
    except OSError as error:  # no reason not to measure the rest
        print(f"{target} could not be written: {error}")


def _small_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the files to keep, each with its size."""
    for where, _, names in os.walk(folder):  # which, unlike rglob, passes over what vanishes
        for path in (Path(where, name) for name in names):
            kept = path.match("plugins/gpuprof/*") or path.match("*.memory.pickle")
            with suppress(OSError):
                if kept and not path.is_symlink() and path.stat().st_size <= SMALL_BYTES:
                    yield path.stat().st_size, path


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Put a file into an archive as it is now: one that grows or shrinks would spoil the rest."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    content = content[-SMALL_BYTES:]  # of a log that nobody expected to grow, the end
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def hand_over(*written: Path) -> None:
    folder = os.environ.get("OUT")
    for path in written if folder and os.path.isdir(folder) else ():
        try:
            part = shutil.copy(path, os.path.join(str(folder), f"{path.name}.part"))
            os.replace(part, os.path.join(str(folder), path.name))
        except OSError as error:
            print(f"{path.name} could not be copied to OUT={folder}: {error}")
