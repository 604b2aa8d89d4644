"""Programs that the rules were not written with: does the report name what is wrong with them?

    python benchmarks/unseen/run.py look     # each program once with GpuProfCallback
    python benchmarks/unseen/run.py pairs    # each slow one and its fixed form, no profiler
    python benchmarks/unseen/run.py reread   # the recordings of `look`, by today's rules
    python benchmarks/unseen/run.py lines    # the recordings' table of lines: is the cause in it?
    python benchmarks/unseen/run.py table    # the results as a page

    python benchmarks/unseen/run.py look --set third --half A    # a later set, in two halves
    python3 benchmarks/unseen/run.py both --set ninth --results DIR/RESULTS --keep DIR    # on a GPU

Whoever wrote the programs had not read the rules, and wrote down in each docstring what is wrong
and which finding would help before it ran under the profiler. What the report said of a program
when it first saw it stays in the results as `first_look`, with the commit of the rules; `look
--again` and `reread` write `after`. `look` and `pairs` go on where they were cut off (`--budget`
seconds end them in time). The second set was written when the rules had been mended with the first
at hand, the third when with the second, and so on; the causes from the third on are those of users'
threads, which the docstrings name. Chance drew their halves: A may mend the rules again, B is
looked at once, at the end; from the seventh on no half is drawn. The eighth's causes are those of
the fault suite in other guises, the eleventh's each of that suite's by name, most of the twelfth's
and thirteenth's in programs whose loaders have workers, the last two's spread over all parts of a
program, the ninth's those of one NVIDIA GPU (its programs run on a CPU too, with sizes that make no
case there). `both` is for another machine: looks and pairs in forks of one process, needing no
installation; what is small of each recording goes to `--keep`, to be read again elsewhere. The
docstrings from the fifth on say in words what a right answer names, and by these a first look's
finding is judged (`judged.py`), for their authors knew no ids.
"""

import argparse
import ast
import importlib.util
import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import forks  # noqa: E402
import page  # noqa: E402
from _harness import keep_memory, machine, one_thread  # noqa: E402
from judged import BY_WORDS  # noqa: E402

ROOT = HERE.parents[1]
RESULTS = HERE.parent / "results"
SETS = {  # each set's folder, and its results
    "first": (HERE / "first", "unseen-2026-11-21.json"),
    "second": (HERE / "second", "unseen-second-2026-11-21.json"),
    "third": (HERE / "third", "unseen-third-2026-11-22.json"),
    "fourth": (HERE / "fourth", "unseen-fourth-2026-11-22.json"),
    "fifth": (HERE / "fifth", "unseen-fifth-2026-11-22.json"),
    "sixth": (HERE / "sixth", "unseen-sixth-2026-11-22.json"),
    "seventh": (HERE / "seventh", "unseen-seventh-2026-11-22.json"),
    "eighth": (HERE / "eighth", "unseen-eighth-2026-11-22.json"),
    "ninth": (HERE / "ninth", "unseen-ninth-2026-11-22.json"),
    "tenth": (HERE / "tenth", "unseen-tenth-2026-11-23.json"),
    "eleventh": (HERE / "eleventh", "unseen-eleventh-2026-11-23.json"),
    "twelfth": (HERE / "twelfth", "unseen-twelfth-2026-11-23.json"),
    "thirteenth": (HERE / "thirteenth", "unseen-thirteenth-2026-11-23.json"),
    "fourteenth": (HERE / "fourteenth", "unseen-fourteenth-2026-11-23.json"),
    "fifteenth": (HERE / "fifteenth", "unseen-fifteenth-2026-11-23.json"),
    "sixteenth": (HERE / "sixteenth", "unseen-sixteenth-2026-11-23.json"),
}
IN_FLIGHT, LOOK_S = 3, 90
"""Of forks: one trains, one reports, one waits. Seconds that a look may take, waiting included."""
SMALL_BYTES, SMALL_TRACE_BYTES = 2**20, 300_000


@dataclass(frozen=True)
class Case:
    """A program as its author described it before it was profiled."""

    path: Path
    cause: str | None
    words: str
    accept: tuple[str, ...]
    lines: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Case:
    """Return the case of a script: what its docstring says of it, and its marked lines."""
    source = path.read_text(encoding="utf-8")
    text = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    before, _, accept = text.partition("accept: ")
    before, _, words = before.partition("right: ")
    cause = before.partition("cause: ")[2].strip() or None
    ids = () if accept == "none" else tuple(accept.split())
    ids = BY_WORDS.get(path.stem, ()) if words else ids
    marked = [n for n, line in enumerate(source.splitlines(), 1) if line.endswith("# cause")]
    return Case(path, cause, words, ids, tuple(marked))


def cases(folder: Path, names: list[str], half: str | None) -> list[Case]:
    """Return the cases of a folder, of these names or this half where any is given."""
    found = [read(path) for path in sorted(folder.glob("*.py"))]
    if half:
        names = [*names, *drawn(found, half)]
    return [case for case in found if not names or case.name in names]


def drawn(found: list[Case], half: str) -> list[str]:
    """Return the names in half A or B: half of the slow programs and half of the clean ones."""
    chance = random.Random(2026)
    slow = sorted(case.name for case in found if case.cause)
    clean = sorted(case.name for case in found if not case.cause)
    first = {*chance.sample(slow, len(slow) // 2), *chance.sample(clean, len(clean) // 2)}
    return [name for name in (*slow, *clean) if (name in first) == (half == "A")]


def look(case: Case, runs: Path) -> dict[str, Any]:
    """Train once with the profiler and return what its report says first."""
    root = new_root(runs / case.name)
    start = time.perf_counter()
    command = [sys.executable, str(case.path), "--profile", "--root", str(root)]
    with (root / "console.txt").open("w") as console:
        subprocess.run(
            command,
            check=True,
            stdout=console,
            stderr=subprocess.STDOUT,
            timeout=150,
            env={**os.environ, "PYTHONPATH": str(HERE)},  # for the module `case`
        )
    seconds = round(time.perf_counter() - start, 1)
    return {"recorded": root.name, "seconds": seconds, **reread(case, root)}


def new_root(folder: Path) -> Path:
    root = folder / f"look{len(list(folder.glob('look*')))}"
    root.mkdir(parents=True)
    return root


def reread(case: Case, root: Path) -> dict[str, Any]:
    """Return what the report says of a recording, and leave it beside it."""
    tool = [sys.executable, "-m", "lightning_gpuprof.cli", "report", str(root)]
    commit = _rules_commit()
    report = json.loads(_said([*tool, "--json"]))
    (root / f"report-{commit}.txt").write_text(_said([*tool, "--verbose"]), encoding="utf-8")
    (root / f"report-{commit}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return {
        "commit": commit,
        "step_ms": _ms(report["steps"]["mean_ns"]),
        "findings": [_brief(case, finding) for finding in report["findings"]],
    }


def line_rank(case: Case, root: Path) -> int | None:
    """Return which line of a report's table of lines is one of the cause, from 1 on.

    Worker processes have a table of their own: the better place of both counts.
    """
    tool = [sys.executable, "-m", "lightning_gpuprof.cli", "report", str(root), "--json"]
    report = json.loads(_said(tool))
    ranks = [
        rank
        for table in (report["lines"], (report["workers"] or {}).get("lines", []))
        for rank, one in enumerate(table, 1)
        if one["line"] in case.lines and Path(one["file"]).name == case.path.name
    ]
    return min(ranks, default=None)


def _rules_commit() -> str:
    """Return the last commit that changed the package that is imported."""
    import lightning_gpuprof

    folder = Path(lightning_gpuprof.__file__).parent
    git = ["git", "-c", "safe.directory=*", "-C", str(folder)]  # a copy may be somebody else's
    log = [*git, "log", "-1", "--format=%h", "--", "."]
    done = subprocess.run(log, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"  # copied without its history


def _said(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _brief(case: Case, finding: dict[str, Any]) -> dict[str, Any]:
    own = [at for at in finding["where"] if at.get("file") and at.get("line")]
    hits = [Path(at["file"]).name == case.path.name and at["line"] in case.lines for at in own]
    return {
        "id": finding["id"],
        "severity": finding["severity"],
        "title": finding["title"],
        "where": [f"{Path(at['file']).name}:{at['line']}" for at in own],
        "line_right": (hits[0] if hits else None) if case.cause else None,
        "saving_ms": [_ms(finding["saving_ns"]["low"]), _ms(finding["saving_ns"]["high"])],
        "confidence": finding["confidence"],
        "change": finding["change"],
    }


def _ms(ns: float) -> float:
    return round(ns / 1e6, 3)


def pair(case: Case, numbers: range, scratch: Path) -> dict[str, Any]:
    """Train slow and fixed in turns, each in a fork of its own, and return mean step times.

    Every second pair begins with the fixed one. The losses at the end tell whether both learnt the
    same, but for a constant that a fix leaves out.
    """
    figures: dict[str, list[float | None]] = {}
    for number in numbers:
        for kind in ("slow", "fixed") if number % 2 == 0 else ("fixed", "slow"):
            root = scratch / case.name / f"{kind}{time.time_ns()}"
            found = forks.timed(case.name, kind == "fixed", root)
            figures.setdefault(f"{kind}_ms", []).append(round(found.step_ms, 3))
            figures.setdefault(f"{kind}_loss", []).append(found.loss)
    return figures


def both(args: argparse.Namespace, state: dict[str, Any]) -> None:
    """Look at each program, then time the pairs, every program's first before any one's second.

    What fails says so in the results, and does not stop the rest.
    """
    from gpu import said  # torch in this process must not ask the device

    end = time.monotonic() + args.budget
    state["gpu"] = said(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    found = cases(SETS[args.set][0], args.cases, args.half)
    entries = {case.name: noted(state, case) for case in found}
    args.runs.mkdir(parents=True, exist_ok=True)
    turn, begun = args.runs / "turn", []
    waiting = [case for case in found if "first_look" not in entries[case.name]]
    while begun or (waiting and time.monotonic() < end):
        while waiting and len(begun) < IN_FLIGHT and time.monotonic() < end:
            case = waiting.pop(0)
            root = new_root(args.runs / case.name)
            begun.append((case, root, forks.begin_look(case.name, root, turn)))
        case, root, child = begun.pop(0)
        child.join(max(1.0, min(LOOK_S, end + LOOK_S - time.monotonic())))
        if child.is_alive():
            child.kill()
            child.join()
        try:
            seen = {"recorded": root.name, "exit_code": child.exitcode, **reread(case, root)}
            entries[case.name]["first_look"] = seen
        except (subprocess.CalledProcessError, ValueError, KeyError) as error:
            console = root / "console.txt"
            said_last = console.read_text(errors="replace")[-1500:] if console.exists() else ""
            failed = f"{error}; exit {child.exitcode}; {said_last}"
            entries[case.name]["look_failed"] = failed
        _write(args.results, state)
        keep_small(args.keep, case.name, root)
        print(f"{case.name}: looked at, {end - time.monotonic():.0f} s are left", flush=True)
    longest = 0.0
    for number in range(args.pairs):
        for case in found:
            timed = entries[case.name].setdefault("pairs", {}) if case.cause else {}
            if not case.cause or len(timed.get("fixed_ms", ())) > number:
                continue
            start = time.monotonic()
            if start + longest > end:
                continue
            try:
                for kind, values in pair(case, range(number, number + 1), args.runs).items():
                    timed.setdefault(kind, []).extend(values)
            except RuntimeError as error:
                entries[case.name]["pairs_failed"] = str(error)
            longest = max(longest, time.monotonic() - start)
            _write(args.results, state)
            print(f"{case.name}: {timed}, {end - time.monotonic():.0f} s are left", flush=True)


def keep_small(folder: Path | None, name: str, root: Path) -> None:
    """Pack what is small of a recording: `--runs` is a good place to unpack it in."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        for path in sorted(root.rglob("*")):
            most = SMALL_TRACE_BYTES if ".pt.trace.json" in path.name else SMALL_BYTES
            if path.is_file() and path.stat().st_size <= most:
                archive.add(path, f"{name}/{path.relative_to(root.parent)}")


def noted(state: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return the results' entry of a case, with what its author wrote down."""
    entry: dict[str, Any] = state["cases"].setdefault(case.name, {})
    entry.update(cause=case.cause, accept=list(case.accept), lines=list(case.lines))
    if case.words:
        entry["words"] = case.words
    return entry


def todo(args: argparse.Namespace, state: dict[str, Any]) -> Iterator[Case]:
    """Yield the cases that still lack this command's result, until the budget is spent."""
    end = time.monotonic() + args.budget
    longest = 0.0
    for case in cases(SETS[args.set][0], args.cases, args.half):
        entry = noted(state, case)
        if args.command == "pairs" and (case.cause is None or "pairs" in entry) and not args.again:
            continue
        if args.command == "look" and "first_look" in entry and not args.again:
            continue
        if time.monotonic() + longest > end:
            print(f"stopped before {case.name}: the next call goes on here")
            return
        start = time.monotonic()
        yield case
        longest = max(longest, time.monotonic() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["look", "pairs", "both", "reread", "lines", "table"])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--again", action="store_true", help="measure what has a result already")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/unseen"))
    parser.add_argument("--set", choices=list(SETS), default="first", help="of programs")
    parser.add_argument("--half", choices=["A", "B"], help="one half of a later set")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for what is small of each recording")
    args = parser.parse_args()
    if args.half and args.set == "first":
        parser.error("--half: the first set has no halves. Add --set, or leave --half out.")
    folder, name = SETS[args.set]
    args.results = args.results or RESULTS / name
    sys.path.insert(0, str(folder))
    one_thread()
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:  # read by the C library when a process starts
        keep_memory()
        os.execv(sys.executable, [sys.executable, *sys.argv])
    state: dict[str, Any] = {"cases": {}}
    if args.results.exists():
        state = json.loads(args.results.read_text(encoding="utf-8"))
    if not importlib.util.find_spec("lightning_gpuprof"):
        on_a_bare_machine(args.runs)
    if args.command in ("pairs", "both"):
        forks.preload()
    if args.command == "both":
        both(args, state)
    elif args.command != "table":
        for case in todo(args, state):
            entry = state["cases"][case.name]
            print(case.name, flush=True)
            recorded = entry.get("after", entry.get("first_look", {})).get("recorded", "look0")
            if args.command == "pairs":
                entry["pairs"] = pair(case, range(args.pairs), args.runs)
            elif args.command == "lines" and case.cause:
                entry["line_rank"] = line_rank(case, args.runs / case.name / recorded)
            elif args.command == "reread":
                again = reread(case, args.runs / case.name / recorded)
                entry["after"] = {"recorded": recorded, **again}
            elif args.command == "look":
                entry["after" if "first_look" in entry else "first_look"] = look(case, args.runs)
            _write(args.results, state)
    args.results.with_suffix(".md").write_text(page.page(state["cases"]), encoding="utf-8")


def on_a_bare_machine(runs: Path) -> None:
    """Have the package of this checkout imported, and what it needs and is missing."""
    from gpu import fetch_missing, put_on_path

    put_on_path(ROOT)
    fetch_missing(runs / "site")


def _write(path: Path, state: dict[str, Any]) -> None:
    state["machine"] = machine()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
