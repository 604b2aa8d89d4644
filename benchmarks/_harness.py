"""Shared by the benchmarks: fresh child processes, interleaved repeats, machine facts, results.

A benchmark here never compares two figures taken minutes apart: its variants take turns
(A B A B ...), each in a process of its own, and the medians are compared with their range beside
them. Processes are forked from a server that has imported torch and Lightning already and has
run nothing with them, so each starts clean without two seconds of imports.
"""

import ctypes
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lightning_gpuprof.report.document import Document, FindingCard, Verdict, decode

os.environ.pop("LIGHTNING_GPUPROF_PAIRS", None)  # figures follow from this version alone
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "lightning", "lightning-gpuprof", "tensorboard", "numpy", "isal")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PR_SET_PDEATHSIG, _SIGTERM = 1, 15
QUIET = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
"""Options of a Trainer that writes and shows nothing."""


def one_thread() -> None:
    """Let this process and its children compute on one thread; call it before importing torch."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")


def keep_memory() -> None:
    """Let the C library of processes started from now on keep what they free.

    By default it gives memory back or not by what lies at the end of its heap: the same training
    step then takes 12.5 or 15.5 ms, by no fault of the program's.
    """
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        os.environ.setdefault(name, str(1 << 30))


class ChildFailed(RuntimeError):
    """A child process raised, died or took too long; holds what it wrote last."""


class Children:
    """Calls functions in fresh processes, one at a time.

    Args:
        preload: Modules that the fork server imports once (their imports must start no thread).
        log: File that takes what the children print.
    """

    def __init__(self, *preload: str, log: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preload))
        self._log = log
        # The server looks for what it preloads along PYTHONPATH, not along our sys.path.
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        try:
            forkserver.ensure_running()
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before

    def semaphore(self, value: int) -> Any:
        """Return a semaphore that can be passed to `call`."""
        return self._context.Semaphore(value)

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float = 300.0) -> Any:
        """Return `function(*args)` as computed in a child; both must be picklable."""
        return _answer(self._context, str(self._log), timeout_s, function, args)


def _answer(
    context: Any, log: str | None, timeout_s: float, function: Callable[..., Any], args: Any
) -> Any:
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_call, args=(theirs, log, function, args))
    child.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise ChildFailed(f"{function.__name__} took more than {timeout_s:.0f} s")
        done, value = ours.recv()
    except EOFError:
        raise ChildFailed(f"{function.__name__} died; see {log or 'the log'}") from None
    finally:
        child.join(timeout=10)
        if child.is_alive():
            child.kill()
            child.join()
    if not done:
        raise ChildFailed(value)
    return value


def _call(
    out: Connection, log: str | None, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    if sys.platform == "linux":  # an interrupted benchmark leaves no process behind
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGTERM)
    # A child of the fork server would start its own workers by a fork server too, which takes
    # them seconds; None is the platform's default, as in a script that a user runs.
    multiprocessing.set_start_method(None, force=True)
    if log is not None:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
    try:
        out.send((True, function(*args)))
    except BaseException:
        out.send((False, traceback.format_exc()))
        raise


def forked(function: Callable[..., Any], *args: Any, timeout_s: float = 300.0) -> Any:
    """Return `function(*args)` as computed in a fork of this process, with all it has warmed up.

    The fork shares nothing with the next one. Not for a process that has used a GPU.
    """
    return _answer(multiprocessing.get_context("fork"), None, timeout_s, function, args)


@dataclass(frozen=True)
class Spread:
    """Repeats of one figure; the unit is that of the figure."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        values = list(values)
        return cls(statistics.median(values), min(values), max(values), len(values))

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def error_summary(errors: Iterable[float | None]) -> dict[str, Any]:
    """Return median and 90th percentile of the errors that are known."""
    known = sorted(one for one in errors if one is not None)
    p90 = known[math.ceil(0.9 * len(known)) - 1] if known else None
    median = statistics.median(known) if known else None
    return {"count": len(known), "median_frac": median, "p90_frac": p90}


def interleaved(
    variants: Mapping[str, Callable[[], float]], *, rounds: int
) -> dict[str, list[float]]:
    """Run every variant once per round, in turn, and return each one's figures in round order.

    Every second round runs backwards, so that no variant always follows the same one.
    """
    figures: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds):
        names = list(variants) if number % 2 == 0 else list(reversed(variants))
        for name in names:
            figures[name].append(variants[name]())
    return figures


def report(run: Path | str) -> Document:
    """Return the document of `lightning-gpuprof report --json`, asked for as a user would."""
    command = [sys.executable, "-m", "lightning_gpuprof.cli", "report", str(run), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ChildFailed(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return decode(done.stdout)


def findings_of(document: Document) -> list[dict[str, Any]]:
    """Return the findings of a document as results keep them; 0 to 0 ns where none is claimed.

    They come as they are read: the change that the verdict proposes, then the others in order,
    which is by saving. A finding of severity info may be listed above the one that is proposed.
    """
    verdicts = {verdict.finding for verdict in document.parts(Verdict)}
    cards = sorted(document.findings, key=lambda card: card.id not in verdicts)
    return [_finding(card) for card in cards]


def _finding(card: FindingCard) -> dict[str, Any]:
    saving = card.saving
    return {
        "id": card.id,
        "severity": card.severity,
        "title": card.title,
        "advice": card.advice,
        "change": card.change,
        "saving_ns": {
            "low": saving.low_ns if saving is not None else 0,
            "high": saving.high_ns if saving is not None else 0,
        },
        "likely_ns": saving.likely_ns if saving is not None else 0,
        "confidence": card.confidence,
        "evidence": {figure.key: figure.value for figure in card.evidence},
        "where": [{"file": place.file, "line": place.line} for place in card.places],
    }


def table(head: Sequence[object], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    first, *lines = (f"| {' | '.join(map(str, row))} |" for row in (head, *rows))
    return [first, "|---" * len(head) + "|", *lines]


def say(text: str) -> None:
    """Tell whoever waits, with the time."""
    print(f"{datetime.now(timezone.utc):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Return what a reader must know to compare figures with their own."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cpu": _cpu_model(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "load_average": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(),
    }


def write_results(
    name: str, payload: Mapping[str, Any], *, page: str | None = None, folder: Path = RESULTS
) -> Path:
    """Write a dated JSON with the machine's facts, and a page beside it; return its path."""
    now = datetime.now(timezone.utc)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{now:%Y-%m-%d}.json"
    document = {"date": f"{now:%Y-%m-%dT%H:%M:%SZ}", "machine": machine(), **payload}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if page is not None:
        path.with_suffix(".md").write_text(page, encoding="utf-8")
    return path


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    # As root git refuses somebody else's folder, which a copied checkout may be.
    safe = ["-c", "safe.directory=*", "-C", str(RESULTS.parent)]
    command = ["git", *safe, "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
