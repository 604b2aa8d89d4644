"""Reads, analyses and judges a session of a run: what its document is built from."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lightning_gpuprof.analysis.compare.before_during import BeforeDuring, before_during
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.config import is_url
from lightning_gpuprof.errors import RecordError, TraceError
from lightning_gpuprof.findings.calibrated import calibrated
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Finding
from lightning_gpuprof.findings.ranking import with_trials
from lightning_gpuprof.records.files import LOCAL, FileSystem, plugin_dir, record_files, top_runs
from lightning_gpuprof.records.glance import glance
from lightning_gpuprof.records.reader import RankRecords, read_run
from lightning_gpuprof.records.remote import fetched
from lightning_gpuprof.records.schema import ProfilerCycle, Snapshot
from lightning_gpuprof.records.span import split_span
from lightning_gpuprof.records.trials import Trials, read_trials
from lightning_gpuprof.report.local_pairs import read_pairs
from lightning_gpuprof.report.notices import (
    begins_at_window,
    busy_notice,
    first_few,
    pace_notice,
    rank_notices,
    trace_notices,
    window_notice,
)
from lightning_gpuprof.report.operator_times import with_operator_times
from lightning_gpuprof.report.stored_analysis import analyse_traces, read_analysis


def resolve_run(path: str, fs: FileSystem = LOCAL) -> tuple[str, tuple[str, ...]]:
    """Return the run at a path, or the newest run in a local folder, and notices on the choice.

    The files of a URL are fetched, and its run is that in the local copy.
    The path of a record file means the run it belongs to. A path without any run is returned as it
    is, because reading it raises an error that says what is wrong.
    """
    path, url = os.fspath(path), None
    if fs is LOCAL and is_url(path):
        path, url = fetched(path), path
    newest, notices = _newest_run(path, fs)
    fetched_notice = f"{url} was fetched into {path}, which may be deleted."
    return newest, notices if url is None else (fetched_notice, *notices)


def _newest_run(path: str, fs: FileSystem) -> tuple[str, tuple[str, ...]]:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.abspath(path) in record_files(folder).values():
        return folder, ()
    if fs is not LOCAL or not os.path.isdir(path) or record_files(path):
        return path, ()
    if not (runs := top_runs(path)):
        return path, ()
    newest = max(runs, key=written_ns)
    notice = f"{path} holds {len(runs)} runs; this is the newest, {newest}."
    return newest, (notice,) * (len(runs) > 1)


def runs_in(folder: str) -> list[str]:
    """Return the runs at or under a folder on local disks, the oldest first."""
    return sorted(top_runs(folder), key=lambda run: (_started_unix_ns(run), run))


def _started_unix_ns(run: str) -> int:
    files = record_files(run)
    with suppress(OSError):
        if (start := glance(files[min(files)]).start) is not None:
            return start.started_unix_ns
    return 0


def written_ns(run: str) -> int:
    """Return when a run's records were last written, in ns since 1970; 0 if it has none."""
    with suppress(OSError):
        return max(os.stat(file).st_mtime_ns for file in record_files(run).values())
    return 0


_MAX_ERROR_WIDTH = 300


@dataclass(frozen=True)
class Report:
    """One session of the run in a log dir, analysed and judged."""

    run: str
    results: RunResults
    findings: tuple[Finding, ...]
    """Ranked by the saving that can be counted on."""
    abstained: tuple[Abstained, ...]
    silent: tuple[str, ...]
    notices: tuple[str, ...]
    """Remarks on the session and its files, such as incomplete records."""
    trials: Trials | None = None
    before_during: BeforeDuring | None = None
    """The steps before the costliest slow-down and those during it; None if none was noticed."""
    oom_snapshot: str | None = None
    """The path of the snapshot of device memory as it ran out."""
    fs: FileSystem = LOCAL

    @property
    def name(self) -> str:
        """The run's path, with the span of steps that the report is on: `logs/run@0-4000`."""
        return self.run if self.results.span is None else f"{self.run}@{self.results.span}"


def load_report(
    run: str,
    fs: FileSystem = LOCAL,
    *,
    session: int | None = None,
    ranks: Mapping[int, RankRecords] | None = None,
    analyse: bool = False,
    time_operators: bool = False,
    measured: bool = True,
) -> Report:
    """Read, analyse and judge a session of a run; by default the last fit that recorded steps.

    A folder of runs on this machine's disks means the newest of them, and `RUN@0-4000` the steps 0
    to 4,000 of a run, as if these were all. `ranks` are the run's records if they were read before.
    `analyse` first analyses traces that have no analysis yet, which takes seconds. With `analyse`
    or `time_operators`, operators that may be slow are timed on this machine. With `measured`,
    savings that trials have measured replace those that models expect.

    Raises:
        RecordError: There is no such run or session, or nothing was recorded in it or in its span.
        ConfigError: A path with an `@` names no span of steps.
    """
    run, span = split_span(os.fspath(run), fs)
    run, notices = resolve_run(run, fs)
    if ranks is None:
        ranks = read_run(run, fs, until=None if span is None else span.last)
    failed = analyse_traces(run) if analyse and fs is LOCAL else {}
    analyses, unreadable = _read_analyses(run, ranks, fs)
    try:
        results = analyze_run(ranks, analyses, session=session, span=span)
    except RecordError as error:
        raise RecordError(f"{run}: {error}") from error
    results = with_operator_times(results, measure=analyse or time_operators)
    judged, trials = evaluate_rules(results), None
    pairs, damaged = read_pairs()
    try:
        whole = session is None and span is None
        trials = read_trials(run, fs) if measured and whole else None
    except RecordError as error:
        unreadable.append(str(error))
    return Report(
        run=run,
        results=results,
        findings=tuple(with_trials(calibrated(judged.findings, results, further=pairs), trials)),
        abstained=judged.abstained,
        silent=judged.silent,
        notices=(
            *notices,
            *_session_notices(results),
            *rank_notices(results),
            *first_few(list(trace_notices(run, results, failed, fs))),
            *first_few(results.warnings),
            *first_few(unreadable),
            *damaged,
        ),
        trials=trials,
        before_during=None if span else before_during(ranks, analyses, results),
        oom_snapshot=_oom_snapshot(run, ranks, results) if span is None else None,
        fs=fs,
    )


def _oom_snapshot(run: str, ranks: Mapping[int, RankRecords], results: RunResults) -> str | None:
    for session in ranks[results.start.rank].sessions:
        if session.start.session != results.start.session:
            continue
        for snapshot in session.all(Snapshot):
            # Record files may be forged: this package writes no name with a folder in it.
            if snapshot.reason == "oom" and os.path.basename(snapshot.file) == snapshot.file:
                return os.path.join(plugin_dir(run), snapshot.file)
    return None


def _session_notices(results: RunResults) -> Iterator[str]:
    if results.end is not None and results.end.error:
        first, *_ = results.end.error.splitlines()
        error = first[:_MAX_ERROR_WIDTH].rstrip(": ")  # an error may have no message
        yield f"The session ended with {error}"
    behind = results.variation.behind_window
    if behind is not None:
        yield window_notice(results, behind)
    slow_down = results.slow_down
    by_finding = slow_down is not None and slow_down.slow_down.lasts
    pace = None if by_finding else results.variation.pace
    if pace is not None and not begins_at_window(pace, behind):
        yield pace_notice(pace)
    if (busy := busy_notice(results)) is not None:
        yield busy


def _read_analyses(
    run: str, ranks: Mapping[int, RankRecords], fs: FileSystem
) -> tuple[dict[str, TraceAnalysis], list[str]]:
    analyses: dict[str, TraceAnalysis] = {}
    notices = []
    sessions = (session for records in ranks.values() for session in records.sessions)
    for name in (cycle.trace_file for session in sessions for cycle in session.all(ProfilerCycle)):
        # Record files may be forged: this package writes no name with a folder in it.
        if os.path.basename(name) != name:
            continue
        try:
            if (analysis := read_analysis(os.path.join(plugin_dir(run), name), fs)) is not None:
                analyses[name] = analysis
        except TraceError as error:
            notices.append(str(error))
    return analyses, notices
