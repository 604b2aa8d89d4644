"""Answers the routes of a run; imported at the first request, with all that views need."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct, convert
from msgspec.structs import replace
from werkzeug import Request, Response
from werkzeug.wsgi import wrap_file

from lightning_gpuprof.records import files
from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.report.build_trace_diff import build_trace_diff
from lightning_gpuprof.report.charts.cycles import Waiting
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.memory_sites import MemorySites
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.charts.ranks import RanksPayload
from lightning_gpuprof.report.charts.registry import find_view
from lightning_gpuprof.report.charts.run_table import Summary, run_table
from lightning_gpuprof.report.charts.run_views import Listing, RunLine, runs_view
from lightning_gpuprof.report.comparison import TOLERANCE, compare_reports
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.tab.loaded_runs import LoadedRuns, state_of_run
from lightning_gpuprof.tab.replies import NotFoundError, reply, reply_json
from lightning_gpuprof.tab.run_index import RunIndex, file_system_for
from lightning_gpuprof.tab.static_files import perfetto_folder
from lightning_gpuprof.tab.summaries import Summaries

_LAST_LINE = 300


def start_process(kind: str, *paths: str) -> "subprocess.Popen[str]":
    """Start `report.charts.prepare`, which makes a kind of file from the files at paths."""
    return subprocess.Popen(
        [sys.executable, "-m", "lightning_gpuprof.report.charts.prepare", kind, *paths],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


class Preparer:
    """Starts at most one process at a time, and knows how each ended.

    Args:
        start: Starts the work of a kind on paths; tests pass a fake.
    """

    def __init__(self, start: Callable[..., Any] = start_process) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[tuple[str, ...], Any] = {}
        self._failed: dict[tuple[str, ...], str] = {}

    def state(self, kind: str, *paths: str) -> dict[str, str]:
        """Start the work where nothing else is running, and return how it stands.

        Work that failed is not tried again.
        """
        work = kind, *paths
        with self._lock:
            for other, process in list(self._running.items()):
                if process.poll() is not None:
                    del self._running[other]
                    self._ended(other, process)
            if not self._running and work not in self._failed:
                try:
                    self._running[work] = self._start(kind, *paths)
                except OSError as error:
                    self._failed[work] = f"no process could be started: {error}"
            if work in self._failed:
                return {"state": "failed", "error": self._failed[work]}
            return {"state": "preparing"}

    def analyse(self, run: LoadedRun) -> None:
        """Have the first trace of a run analysed that needs it; a later request starts the next.

        Traces of all ranks without records are compared first: that is what their page begins with.
        """
        if run.has_only_traces and run.job_files is not None and run.job is None:
            self.state("job", run.folder)
        for trace in run.stale_traces:
            if self.state("analysis", trace)["state"] == "preparing":
                return

    def _ended(self, work: tuple[str, ...], process: Any) -> None:
        _, message = process.communicate()
        if process.returncode:
            lines = message.strip().splitlines() or [f"the process ended with {process.returncode}"]
            self._failed[work] = lines[-1][:_LAST_LINE]


TABLE_S = 0.5
"""How long a request may read runs for the table of all runs; the page asks again for the rest."""
AT_ONCE_BYTES = 8_000_000
"""Records up to this size are compared within a request; it takes some ten times as much memory."""


class Answers:
    """Finds the run that a request names and asks a view about it."""

    def __init__(
        self,
        index: RunIndex,
        preparer: Preparer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._preparer = preparer or Preparer()
        self._clock = clock
        self._loaded = LoadedRuns()
        self._summaries = Summaries()
        self._comparisons = tempfile.TemporaryDirectory(prefix="gpuprof-")

    def list_runs(self, request: Request) -> Response:
        """Answer `/runs`."""
        runs = self._index.runs()
        listed = Listing(
            runs=runs_view(runs, file_system_for),
            roots=tuple(path for _, path in self._index.roots),
            missing=tuple(self._index.missing()),
            schema_version=SCHEMA_VERSION,
            perfetto=perfetto_folder() is not None,
        )
        return reply_json(request, listed)

    def run_table(self, request: Request) -> Response:
        """Answer `/run_table`: the figures of as many runs as can be read within a moment."""
        runs, until = self._index.runs(), self._clock() + TABLE_S

        def summary_of(line: RunLine) -> Summary | None:
            return self._summaries.of(line, read=self._clock() < until)

        return reply_json(request, run_table(runs_view(runs, file_system_for), summary_of))

    def view(self, name: str, request: Request) -> Response:
        """Answer the route of a view at once, whatever is not prepared yet."""
        run = self._run(request)
        payload = find_view(name)(run, Query(request.args))
        if isinstance(payload, bytes):
            return reply(request, payload, "application/octet-stream")
        payload = self._prepared(name, run, payload)
        self._preparer.analyse(run)
        return reply_json(request, payload)

    def compare(self, request: Request) -> Response:
        """Answer `/compare`; of long runs by the last comparison that a process of its own made."""
        new, base = self._run(request), self._run(request, "base")
        if base.has_only_traces or new.has_only_traces:
            return reply_json(request, self._compared_traces(base, new))
        states = [state_of_run(run.path) for run in (base, new)]
        sizes = [size for state in states for name, (size, _) in state if name.endswith(".jsonl")]
        if sum(sizes) > AT_ONCE_BYTES:
            response = self._comparison(request, base.path, new.path, str(states))
        else:
            comparison = compare_reports(load_report(base.path), load_report(new.path), TOLERANCE)
            response = reply_json(request, comparison.document())
        for run in (new, base):
            self._preparer.analyse(run)
        return response

    def _compared_traces(self, base: LoadedRun, new: LoadedRun) -> Struct:
        """Compare the last analysed traces of two folders that hold only traces."""
        for run, other in ((base, new), (new, base)):
            if not run.has_only_traces:
                raise QueryError(
                    f"{run.name} is a run and {other.name} holds only traces: compare two runs, or "
                    "two folders of traces."
                )
        analyses = base.last_analysis(), new.last_analysis()
        for run, analysis in zip((base, new), analyses, strict=True):
            if analysis is None:
                trace = os.path.join(run.folder, run.cycles()[-1][1].trace_file)
                return convert(self._preparer.state("analysis", trace), Waiting)
        return build_trace_diff(*(analysis for analysis in analyses if analysis is not None))

    def _comparison(self, request: Request, base: str, new: str, state: str) -> Response:
        pair, now = (
            hashlib.sha256(text.encode()).hexdigest() for text in (base + "\0" + new, state)
        )
        folder = Path(self._comparisons.name)
        made = sorted(folder.glob(f"{pair}.*.json"), key=os.path.getmtime)
        path = folder / f"{pair}.{now}.json"
        if path not in made:
            stands = self._preparer.state("comparison", base, new, str(path))
            if not made:
                return reply_json(request, convert(stands, Waiting))
            path = made[-1]  # the last comparison, until the new one is made
        for other in {*made} - {path}:
            other.unlink(missing_ok=True)
        return reply(request, path.read_bytes(), "application/json")

    def trace(self, request: Request) -> Response:
        """Answer `/trace`."""
        run = self._run(request)
        name = request.args.get("file", "")
        try:
            path = run.trace_path(name)
        except QueryError as error:
            raise NotFoundError(str(error)) from error
        headers = [("Content-Disposition", _attachment(name))]
        mime_type = "application/gzip" if name.endswith(files.TRACE_SUFFIX) else "application/json"
        # Not content_encoding="gzip": the viewer is to get the file as it lies on disk.
        if run.fs is not files.LOCAL:
            return reply(request, run.fs.read_bytes(path), mime_type, headers=headers)
        response = reply(request, b"", mime_type, headers=headers)
        # Piece by piece: traces may be larger than what a request may take of memory.
        file = files.open_file(path)
        response.content_length = os.fstat(file.fileno()).st_size
        response.response = wrap_file(request.environ, file)
        response.direct_passthrough = True
        return response

    def _prepared(self, name: str, run: LoadedRun, payload: Struct) -> Struct:
        """Have the file made that a view lacks, and say in its payload how that stands."""
        state = getattr(payload, "state", None)
        if run.fs is not files.LOCAL or state not in ("not-analysed", "not-prepared"):
            return payload
        if isinstance(payload, MemorySites):
            work = self._preparer.state("memory", os.path.join(run.folder, payload.file or ""))
            return replace(payload, **work)
        if isinstance(payload, RanksPayload):
            return replace(payload, **self._preparer.state("job", run.folder))
        trace = str(getattr(payload, "trace", None))
        if state == "not-prepared":
            return replace(payload, **self._preparer.state("timeline", run.trace_path(trace)))
        if (path := os.path.join(run.folder, trace)) not in run.stale_traces:
            return payload
        work = self._preparer.state("analysis", path)
        if work["state"] == "preparing":
            work["state"] = "being-analysed"
        return replace(payload, **work)

    def _run(self, request: Request, parameter: str = "run") -> LoadedRun:
        name = request.args.get(parameter)
        if not name:
            raise QueryError(
                f"The request names no {parameter}: add {parameter}=NAME, a name that /runs lists."
            )
        path = self._index.runs().get(name)
        if path is None:
            raise NotFoundError(
                f"There is no run {name[:80]!r} with records of lightning_gpuprof under "
                "TensorBoard's log dir."
            )
        return self._loaded.of(name, path)


def _attachment(name: str) -> str:
    r"""Return the header that names a file to be saved; RFC 5987 for what is not plain ASCII.

    >>> _attachment("a.gz"), _attachment("ü.gz")
    ('attachment; filename="a.gz"', 'attachment; filename="_.gz"; filename*=UTF-8\'\'%C3%BC.gz')
    """
    plain = re.sub(r'[^ -~]|["\\]', "_", name)
    header = f'attachment; filename="{plain}"'
    if plain == name:
        return header
    return f"{header}; filename*=UTF-8''{quote(name, safe='', errors='replace')}"
