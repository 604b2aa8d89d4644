"""What the report of many ranks takes, and whether it is right.

    python benchmarks/ranks.py [--quick] [--folder FOLDER]

Records of ranks that train together are simulated: one rank is late in a phase, and the clocks of
the machines differ by up to 3 s. In 100,000 steps it is late in the second half, and the report
must say since when. For every number of ranks and steps the report is made in a process of its own;
then one rank, and later every rank, appends a window, and the tab's overview is asked for again.
The cases beside it are 64 ranks, which are read by their rollups: clean ones, a rank that is
killed, one that joins late, damaged record files, and rollups that are damaged, old or missing.

`--quick` leaves out sizes that say little more; 1,024 ranks x 100,000 steps are in both, and need
12 GB in FOLDER.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from _harness import one_thread, write_results

one_thread()

from _simulated_ranks import MS, Simulation, append_window, write_ranks  # noqa: E402

from lightning_gpuprof.records.files import record_files  # noqa: E402
from lightning_gpuprof.records.phases import Phase  # noqa: E402
from lightning_gpuprof.records.rollup import rollup_path  # noqa: E402

SIZES = [(8, 1_000), (8, 100_000), (64, 10_000), (256, 10_000), (1_024, 1_000), (1_024, 10_000),
         (1_024, 100_000)]  # fmt: skip
QUICK = [(64, 10_000), (1_024, 1_000), (1_024, 10_000), (1_024, 100_000)]
LONG, SINCE_WITHIN = 100_000, 1_000
"""Of so many steps a rank is late in the second half, which the report must say to so many."""
LATE, PHASE = 5, Phase.FORWARD
CASE_RANKS, CASE_STEPS = 64, 4_000
MOST_CPU_S, MOST_MB, MOST_REFRESH_S = 20, 1_024, 0.3
"""What the largest size may take."""
ROUTE, OVERVIEW = "/data/plugin/gpuprof", ("run", "report", "steps")
FINDING = "straggler-rank"


@dataclass(frozen=True)
class Case:
    """Ranks that are simulated, then damaged, and what the report must say."""

    name: str
    simulation: Simulation
    damage: Callable[[Path], object] = lambda _run: None
    late: tuple[int, Phase] | None = (LATE, PHASE)


def main() -> int:
    """Measure, print a table and write the figures; return how many answers were wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="sizes for six minutes")
    parser.add_argument("--folder", type=Path, help="where the records are written for a while")
    parser.add_argument("--measure", type=Path, help="used by itself: report on one run")
    parser.add_argument("--size", action="store_true", help="used by itself: refresh it too")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure, is_size=options.size)))
        return 0
    began = time.monotonic()
    sizes, cases = [], []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for ranks, steps in QUICK if options.quick else SIZES:
            since = steps // 2 if steps == LONG else 0
            simulation = Simulation(ranks=ranks, steps=steps, late=LATE, since=since)
            case = Case(f"{ranks:,} x {steps:,}", simulation)
            sizes.append(tried(case, Path(folder, "run"), is_size=True))
        for case in all_cases():
            cases.append(tried(case, Path(folder, "run")))
    result = {
        "sizes": sizes,
        "cases": cases,
        "wrong": [row["name"] for row in (*sizes, *cases) if not row["right"]],
        "seconds": round(time.monotonic() - began),
    }
    page = table(sizes, cases)
    print(page)
    print(f"Written: {write_results('ranks', result, page=page)}")
    return len(result["wrong"])


def all_cases() -> list[Case]:
    """Return the cases of which the answer is known."""

    def of(**options: Any) -> Simulation:
        return Simulation(ranks=CASE_RANKS, steps=CASE_STEPS, **{"late": LATE} | options)

    return [
        *(
            Case(f"late in {phase.value}", of(phase=phase), late=(LATE, phase))
            for phase in (Phase.DATA_WAIT, Phase.FORWARD, Phase.BACKWARD, Phase.CALLBACKS)
        ),
        Case(
            "the last rank", of(more_ns=12 * MS, late=CASE_RANKS - 1), late=(CASE_RANKS - 1, PHASE)
        ),
        Case("late in the last quarter", of(since=CASE_STEPS * 3 // 4)),
        *(Case(f"clean {seed}", of(late=None, seed=seed), late=None) for seed in range(4)),
        Case("a rank was killed", of(killed=(9, CASE_STEPS * 3 // 4))),
        Case("a rank joined late", of(joins_at=(9, CASE_STEPS // 2))),
        Case("damaged lines", of(), damaged_lines),
        Case("a file of noise", of(), noise, late=None),
        Case("damaged rollups", of(), damaged_rollups),
        Case("old rollups", of(), old_rollups),
        Case("no rollups", of(), no_rollups),
    ]


def damaged_lines(run: Path) -> None:
    """Make a line of ten files unreadable, and cut off their last lines."""
    for rank in range(0, 20, 2):
        path = Path(record_files(str(run))[rank])
        lines = path.read_bytes().split(b"\n")
        lines[12] = lines[12][:200] + b"\x00" + lines[12][201:]
        path.write_bytes(b"\n".join(lines)[:-40])


def noise(run: Path) -> None:
    """Fill a file with what is no record: which rank is late is then not known."""
    Path(record_files(str(run))[7]).write_bytes(bytes(range(256)) * 500)


def damaged_rollups(run: Path) -> None:
    """Damage the rollups of half the ranks."""
    for path in list(record_files(str(run)).values())[::2]:
        rollup = Path(rollup_path(path))
        rollup.write_bytes(rollup.read_bytes()[:500] + b"\n{]" + rollup.read_bytes()[500:])


def old_rollups(run: Path) -> None:
    """Leave only the first half of every rollup."""
    for path in record_files(str(run)).values():
        rollup = Path(rollup_path(path))
        lines = rollup.read_bytes().splitlines(keepends=True)
        rollup.write_bytes(b"".join(lines[: len(lines) // 2]))


def no_rollups(run: Path) -> None:
    """Delete all rollups."""
    for path in record_files(str(run)).values():
        Path(rollup_path(path)).unlink()


def tried(case: Case, run: Path, *, is_size: bool = False) -> dict[str, Any]:
    """Simulate a case, and make its report in a process of its own."""
    begin = time.monotonic()
    write_ranks(run, case.simulation)
    written_s = time.monotonic() - begin
    case.damage(run)
    files = [path.stat().st_size for path in run.rglob("*.jsonl")]
    command = [sys.executable, __file__, "--measure", str(run)] + ["--size"] * is_size
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    shutil.rmtree(run)
    result = json.loads(done.stdout)
    wanted = None if case.late is None else [case.late[0], case.late[1].value]
    row = {
        "name": case.name,
        "ranks": case.simulation.ranks,
        "steps": case.simulation.steps,
        "record_bytes": sum(files),
        "written_s": round(written_s, 1),
        "wanted": wanted,
        "right": result["late"] == wanted and _since_is_right(case.simulation, result["since"]),
        **result,
    }
    print({key: row[key] for key in ("name", "right", "cpu_s", "peak_mb")}, flush=True)
    return row


def _since_is_right(simulation: Simulation, since: int | None) -> bool:
    """Return whether a long run's report says since when the rank is late."""
    if simulation.steps < LONG:
        return True
    return since is not None and abs(since - simulation.since) <= SINCE_WITHIN


def measured(run: Path, *, is_size: bool) -> dict[str, Any]:
    """Report on a run; one of a size is asked for in the tab, too, others are read by rollups."""
    from lightning_gpuprof.records.reader import RunReader
    from lightning_gpuprof.report.build_run import build_run
    from lightning_gpuprof.report.load import load_report

    begin = time.process_time()
    ranks = None if is_size else RunReader(str(run), most_raw_bytes=0).read()
    report = load_report(str(run), ranks=ranks)
    build_run(report)
    result: dict[str, Any] = {"cpu_s": round(time.process_time() - begin, 2), "peak_mb": peak_mb()}
    late = next((finding for finding in report.findings if finding.id == FINDING), None)
    place = late.places[0] if late is not None and late.places else None
    result["late"] = None if place is None else [place.rank, place.phase]
    result["since"] = None if late is None else late.evidence.get("since_step_count")
    result["rolled"] = report.results.ranks.rolled_steps is not None
    return result | (refreshed(run) if is_size else {})


def refreshed(run: Path) -> dict[str, float]:
    """Return the CPU seconds of the tab's overview: opened, after one line, after one of each."""
    from tensorboard.backend import application
    from tensorboard.plugins import base_plugin
    from werkzeug.test import Client

    from lightning_gpuprof.tab.loader import GpuProfLoader

    context = base_plugin.TBContext(logdir=str(run), flags=SimpleNamespace(logdir_spec=""))
    client = Client(application.TensorBoardWSGI([GpuProfLoader().load(context)]))

    def overview_s() -> float:
        begin = time.process_time()
        for name in OVERVIEW:
            params = {"run": ".", "buckets": "160"} if name == "steps" else {"run": "."}
            response = client.get(f"{ROUTE}/{name}", query_string=params)
            if response.status_code != 200:
                raise RuntimeError(f"{name} answered {response.status_code}")
        return round(time.process_time() - begin, 3)

    opened_s, line_s, ranks = overview_s(), [], record_files(str(run))
    for rank in (0, len(ranks) // 2, 0):
        append_window(run, rank)
        line_s.append(overview_s())
    for rank in ranks:
        append_window(run, rank)
    return {
        "opened_s": opened_s,
        "line_s": sorted(line_s)[1],
        "every_rank_s": overview_s(),
        "tab_peak_mb": peak_mb(),
    }


def peak_mb() -> int:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


def table(sizes: list[dict[str, Any]], cases: list[dict[str, Any]]) -> str:
    """Return the figures as a page."""
    lines = [
        "| ranks x steps | records | report | peak | tab opened | after a line | after one of each "
        "| right |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row['name']} | {row['record_bytes'] / 1e9:.2f} GB | {row['cpu_s']:.1f} s "
            f"| {row['peak_mb']:,} MB | {row['opened_s']:.1f} s | {row['line_s']:.2f} s "
            f"| {row['every_rank_s']:.1f} s | {'yes' if row['right'] else 'NO'} |"
            for row in sizes
        ),
        "",
        f"Seconds are CPU seconds. Cases of {CASE_RANKS} ranks x {CASE_STEPS:,} steps:",
        "",
        "| case | late | said | right |",
        "|---|---|---|---|",
        *(
            f"| {row['name']} | {row['wanted']} | {row['late']} "
            f"| {'yes' if row['right'] else 'NO'} |"
            for row in cases
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
