"""Makes the table of pairs by which the intervals of savings are calibrated (docs/adr/0053).

    python benchmarks/calibration.py --unseen FOLDER --faults FILE   # makes the table
    python benchmarks/calibration.py                                 # how its pairs hold

A pair is what the model expected of the step after a change, and the step that was measured with
the change. Recordings are read with today's rules, and the first finding that is right is taken: by
its id, or because its first place is a line that the program's author marked as the cause. None of
the programs kept in benchmarks/unseen is among them: those are the test. Planted faults say which
kinds were measured at all; bounds come from the other programs.

- `--unseen`: programs of this repository's history, with their authors' docstrings: `pairs.json`
  ({"set/name": {"slow": {"step_ms": ...}, "fixed": {"step_ms": ...}}}), the recording of the slow
  one in `runs/set/name/look`, its source in `benchmarks/unseen/set/name.py`.
- `--faults`: `kept.json` of the fault suite's folder, with pairs.

A step is measured without a profiler, at another time than the recording. The saving is scaled to
the machine's speed at the recording, by the slow program's step in both; where these differ by a
factor of two, the pair is left out.
"""

import argparse
import ast
import importlib.util
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "faults")]

from _harness import one_thread, table  # noqa: E402

one_thread()

from causes import CAUSES  # noqa: E402

from lightning_gpuprof.analysis.run.run_results import RunResults  # noqa: E402
from lightning_gpuprof.analysis.savings import conformal  # noqa: E402
from lightning_gpuprof.analysis.savings.conformal import (  # noqa: E402
    OWN_PAIRS,
    PLANTED,
    Pair,
    bound,
    held,
    made_pair,
)
from lightning_gpuprof.errors import GpuProfError  # noqa: E402
from lightning_gpuprof.findings.calibrated import device_of, estimate_of  # noqa: E402
from lightning_gpuprof.findings.engine import evaluate_rules  # noqa: E402
from lightning_gpuprof.findings.model import Finding  # noqa: E402
from lightning_gpuprof.report.load import load_report  # noqa: E402

TABLE = Path(conformal.__file__).with_name(conformal.TABLE)
MOST_DRIFT = 2.0
"""Machines that differ by more than this factor between recording and pair are two machines."""


def unseen_pairs(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of programs whose authors did not know the rules."""
    path = folder / "pairs.json"
    words = _answers_in_words(folder / "benchmarks/unseen/judged.py")
    for name, entry in sorted(json.loads(path.read_text()).items()):
        slow, fixed = (entry.get(kind, {}).get("step_ms") for kind in ("slow", "fixed"))
        if not slow or not fixed:
            continue
        source = folder / f"benchmarks/unseen/{name}.py"
        accepted, lines = _right_answer(source)
        ids = accepted or words.get(source.stem, ())

        def right(finding: Finding, ids=ids, lines=lines, stem=source.stem) -> bool:
            at = next((place for place in finding.places if place.file), None)
            by_line = at is not None and Path(str(at.file)).stem == stem and at.line in lines
            return finding.id in ids or by_line

        look = folder / "runs" / name / "look"
        yield from _pair(name, look, right, slow * 1e6, fixed * 1e6, day_of(path))


def _right_answer(source: Path) -> tuple[tuple[str, ...], set[int]]:
    """Return the ids that a program's docstring accepts, and the lines marked as its cause."""
    text = source.read_text(encoding="utf-8")
    accept = (ast.get_docstring(ast.parse(text)) or "").partition("accept: ")[2]
    ids = tuple(word for word in accept.split() if not word.startswith("@"))
    return ids, {n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# cause")}


def _answers_in_words(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the ids that say what an author had asked for in words, by program."""
    if not path.exists():
        return {}
    spec = importlib.util.spec_from_file_location("judged", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    answers: dict[str, tuple[str, ...]] = module.BY_WORDS
    return answers


def fault_pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of the fault suite."""
    for name, entry in sorted(json.loads(path.read_text()).items()):
        if not entry.get("pairs"):
            continue
        cause = CAUSES[name.split()[0]]
        slow = statistics.mean(ns for pair in entry["pairs"] for ns in pair["slow_ns"])
        saved = statistics.median(
            before - after
            for pair in entry["pairs"]
            for before, after in zip(pair["slow_ns"], pair["fast_ns"], strict=True)
        )

        def right(finding: Finding, cause=cause, asked=entry["asked"]) -> bool:
            # A prediction is one for its change: it must be the change that was measured.
            change = cause.asked({"change": finding.change})
            same = (None if change is None else [*change]) == (asked and [*asked])
            return cause.accepts(finding.id) and same

        log_dir = Path(entry["log_dir"])
        yield from _pair(f"{PLANTED}{name}", log_dir, right, slow, slow - saved, day_of(path))


def _pair(
    source: str,
    recording: Path,
    right: Callable[[Finding], bool],
    slow_ns: float,
    fixed_ns: float,
    date: str,
) -> Iterator[Pair]:
    try:
        run = load_report(str(recording), analyse=True, measured=False).results
    except GpuProfError as error:
        print(f"{source}: {error}", file=sys.stderr)
        return
    findings = [finding for finding in evaluate_rules(run).findings if finding.saving_ns.high]
    finding = next(filter(right, findings), None)
    if finding is None or run.whole_fit is None:
        print(f"{source}: no right finding, or none that claims time", file=sys.stderr)
        return
    speed = run.whole_fit.step_ns / slow_ns
    if not 1 / MOST_DRIFT < speed < MOST_DRIFT:
        print(f"{source}: {speed:.2f} times the recorded speed", file=sys.stderr)
        return
    yield _made(source, run, finding, (slow_ns - fixed_ns) * speed, date)


def _made(source: str, run: RunResults, finding: Finding, saved_ns: float, date: str) -> Pair:
    estimate = estimate_of(finding, run)
    assert estimate is not None
    return made_pair(finding.id, source, date, device_of(run), estimate, saved_ns)


def day_of(path: Path) -> str:
    """Return the day on which a file of measurements was written."""
    return f"{datetime.fromtimestamp(path.stat().st_mtime, timezone.utc):%Y-%m-%d}"


def write(pairs: Sequence[Pair], path: Path) -> None:
    """Write the table, a pair in a line."""
    rows = ",\n".join(f"  {json.dumps(list(_values(pair)))}" for pair in pairs)
    path.write_text(f'{{"pairs": [\n{rows}\n]}}\n', encoding="utf-8")


def _values(pair: Pair) -> Iterator[Any]:
    return (getattr(pair, name) for name in pair.__struct_fields__)


def page(pairs: Sequence[Pair]) -> str:
    """Return how often the intervals of every kind hold, each pair judged by the others."""
    others = [pair for pair in pairs if not pair.planted]
    kinds = sorted({pair.kind for pair in others})
    rows = [
        _row("all", others),
        *(_row(kind, [pair for pair in others if pair.kind == kind]) for kind in kinds),
    ]
    head = ("kind", "pairs", "in the model's interval", "held", "bound", "step off by (median)")
    lines = table(head, rows)
    planted = [pair.score for pair in pairs if pair.planted]
    if others and planted:
        inside = sum(score <= bound(sorted(pair.score for pair in others)) for score in planted)
        lines.append(f"\nPlanted faults within the bound of all: {inside} of {len(planted)}.")
    return "\n".join(lines)


def _row(name: str, pairs: Sequence[Pair]) -> tuple[Any, ...]:
    scores = sorted(pair.score for pair in pairs)
    model = sum(pair.least_ns <= pair.measured_ns <= pair.most_ns for pair in pairs)
    error = statistics.median(abs(pair.likely_ns / pair.measured_ns - 1) for pair in pairs)
    bounded = (held(scores), f"{bound(scores):.2f}") if len(pairs) >= OWN_PAIRS else ("-", "-")
    return (name, len(pairs), model, *bounded, f"{error:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unseen", type=Path, help="folder of programs, recordings and pairs")
    parser.add_argument("--faults", type=Path, help="kept.json of the fault suite, with pairs")
    parser.add_argument("--table", type=Path, default=TABLE)
    args = parser.parse_args()
    pairs = [
        *(unseen_pairs(args.unseen) if args.unseen else ()),
        *(fault_pairs(args.faults) if args.faults else ()),
    ]
    if pairs:
        write(sorted(pairs, key=lambda pair: (pair.kind, pair.source)), args.table)
        print(f"{len(pairs)} pairs written to {args.table}")
    else:
        pairs = list(conformal.calibration().pairs)
    print(page(pairs))


if __name__ == "__main__":
    main()
