"""Slow-downs that are planted at a step of small fits, and clean fits: what is said of them.

    python benchmarks/since_when/run.py [--fresh] [--only TEXT]

Every fit runs in a fresh process. Results are kept in `runs/since_when/results.jsonl` as they come,
so that a run that was stopped goes on where it was; `--fresh` begins anew. Run it on a machine that
does nothing else.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import ChildFailed, Children, one_thread, say, table, write_results

one_thread()

from programs import CLEAN, Case, line_of, train  # noqa: E402

from lightning_gpuprof.records.facts import CaptureReason, SlowDown  # noqa: E402
from lightning_gpuprof.records.reader import read_run  # noqa: E402
from lightning_gpuprof.report.load import load_report  # noqa: E402

WORK = Path(__file__).parents[2] / "runs" / "since_when"
WITHIN = 50
"""A window: slow-downs are written down by windows of so many steps."""
SIZES = (0.05, 0.2, 1.0)
SHAPES = ("step", "ramp", "spikes")
PHASES = {
    "loader": ("data_wait",),
    "page cache": ("data_wait",),
    "callback": ("callbacks",),
    "callback list": ("callbacks",),
    "forward": ("forward",),
    "growing list": ("forward",),
    "growing input": ("forward", "backward"),
    "garbage": ("garbage_collection",),
    "logger": ("logging",),
    "process": (None,),
}


def cases() -> list[Case]:
    """Return the sixty slow-downs, and the twenty clean runs."""
    planted = [
        Case(cause, shape, size)
        for cause in ("loader", "callback", "forward", "logger")
        for shape in SHAPES
        for size in SIZES
    ]
    planted += [
        Case(cause, "ramp", size) for cause in ("growing list", "callback list") for size in SIZES
    ]
    planted += [Case("growing input", "ramp", size) for size in SIZES]
    planted += [Case("garbage", shape, size) for shape in SHAPES for size in SIZES[1:]]
    planted += [Case("process", "step", size) for size in SIZES]
    # A burst shares the core with training: from half of the distance on, it is no spike any more.
    planted += [Case("process", "spikes", size) for size in (0.05, 0.1, 0.2)]
    planted += [Case("page cache", "step", size) for size in SIZES]
    clean = [Case(flavour, seed=seed) for flavour in CLEAN for seed in range(4)]
    return planted + clean


def fit(case: Case) -> dict[str, Any]:
    """Train a case, and return what its report says."""
    folder = tempfile.mkdtemp()
    try:
        train(case, folder)
        # The records stay, so that the search can be tried on them again.
        for path in Path(folder).rglob("rank0.jsonl"):
            target = WORK / "records" / case.name / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        return said_of(case, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def said_of(case: Case, folder: str) -> dict[str, Any]:
    """Return what the finding and the records of a run say."""
    report = load_report(folder)
    cause = report.results.slow_down
    findings = [finding.id for finding in report.findings]
    online = [
        slow_down.since_step
        for records in read_run(folder).values()
        for session in records.sessions
        for slow_down in session.all(SlowDown)
    ]
    whys = [capture.why for capture in report.results.captures]
    said: dict[str, Any] = {
        "finding": "slowed-down" in findings,
        "first": findings[:1],
        "online": online,
        "captures": whys.count(CaptureReason.SLOW_DOWN),
    }
    if cause is not None:
        slow_down = cause.slow_down
        said |= {
            "since": slow_down.since_step,
            "until": slow_down.until_step,
            "phase": slow_down.phase,
            "shape": slow_down.shape.value,
            "before_ns": slow_down.before_ns,
            "more_ns": slow_down.more_ns,
            "line": None if cause.line is None else cause.line.line,
        }
    return said


def judged(case: Case, said: dict[str, Any]) -> dict[str, Any]:
    """Return which of the answers are right."""
    if not case.shape:
        silent = not said["finding"] and not said["online"] and not said["captures"]
        return {"silent": silent}
    line = line_of(case.cause)
    has = said["finding"]
    return {
        "onset": has and abs(said["since"] - case.onset) <= WITHIN,
        "phase": has and said["phase"] in PHASES[case.cause],
        "shape": has and said["shape"] == case.shape,
        "line": None
        if line is None
        else has and said["line"] in (line - 1, line, line + 1),  # a loop and its body
    }


def main() -> int:
    """Run what is left, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "results.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    done: dict[str, Any] = {}
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        done = {row["case"]: row for row in map(json.loads, lines)}
    children = Children("torch", "lightning.pytorch", log=WORK / "log.txt")
    chosen = [case for case in cases() if options.only in case.name]
    begun = time.monotonic()
    for case in chosen:
        if case.name in done:
            continue
        try:
            said = children.call(fit, case, timeout_s=180)
        except ChildFailed as error:
            say(f"{case.name}: {error}")
            continue
        row = {"case": case.name, "onset": case.onset, "said": said, "right": judged(case, said)}
        done[case.name] = row
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        spent = f"{time.monotonic() - begun:6.0f} s"
        say(f"{spent}  {case.name:32} {case.onset:5} {row['right']} {said}")
    rows = [done[case.name] for case in chosen if case.name in done]
    return show(rows, whole=not options.only)


def show(rows: list[dict[str, Any]], *, whole: bool) -> int:
    """Print how many answers are right; write the results of a whole run."""
    planted = [row for row in rows if "silent" not in row["right"]]
    clean = [row for row in rows if "silent" in row["right"]]
    counts = {}
    for answer, least in (("onset", 57), ("phase", 57), ("shape", 54), ("line", 54)):
        asked = [row["right"][answer] for row in planted if row["right"][answer] is not None]
        counts[answer] = {"right": sum(asked), "of": len(asked), "least": least}
    loud = sum(not row["right"]["silent"] for row in clean)
    for line in table(
        ("answer", "right", "of", "wanted of 60"),
        [(name, count["right"], count["of"], count["least"]) for name, count in counts.items()],
    ):
        say(line)
    say(f"clean runs of which something was said: {loud} of {len(clean)}")
    if whole:
        write_results("since_when", {"counts": counts, "clean_said": loud, "cases": rows})
    # Of cases with a line there are fewer than sixty: nine in ten of them is the goal.
    enough = all(count["right"] * 60 >= count["least"] * count["of"] for count in counts.values())
    return 0 if enough and not loud else 1


if __name__ == "__main__":
    raise SystemExit(main())
