"""A run read once and kept for the views that ask about it."""

import os
from functools import cached_property
from typing import Any

from lightning_gpuprof.analysis.run.sessions import choose_session
from lightning_gpuprof.errors import RecordError, TraceError
from lightning_gpuprof.records.files import LOCAL, FileSystem, run_folder
from lightning_gpuprof.records.reader import RankRecords, Session, read_run
from lightning_gpuprof.records.schema import ProfilerCycle
from lightning_gpuprof.views.documents.notices import rank_list
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.documents.stored_analysis import read_analysis, stale_traces
from lightning_gpuprof.views.documents.trace_folder import trace_records, trace_report
from lightning_gpuprof.views.tab.layout_file import LoadedLayout
from lightning_gpuprof.views.tab.query import Query, QueryError


class LoadedRun:
    """One run's records and trace analyses, each read at first use."""

    def __init__(self, path: str, *, fs: FileSystem = LOCAL, name: str = "") -> None:
        self.path = path
        self.fs = fs
        self.name = name or os.path.basename(os.path.normpath(path))
        self.folder = run_folder(path, fs)
        self._reports: dict[int | None, dict[str, Any]] = {}
        self.layouts: dict[str, LoadedLayout] = {}
        """By trace file, those asked for so far."""

    @cached_property
    def ranks(self) -> dict[int, RankRecords]:
        """Every rank's records."""
        if self.folder == self.path:
            return trace_records(self.path, self.fs)
        return read_run(self.path, self.fs)

    @cached_property
    def stale_traces(self) -> list[str]:
        """Its traces on this machine's disks that this version should analyse."""
        return stale_traces(self.path) if self.fs is LOCAL else []

    def report(self, query: Query) -> dict[str, Any]:
        """Return the document that `lightning-gpuprof report --json` prints."""
        session = self.session_number(query)
        if session not in self._reports:
            if self.folder == self.path:
                self._reports[session] = trace_report(self.path, self.analysis, self.cycles())
            else:
                report = load_report(self.path, self.fs, session=session, ranks=self.ranks)
                self._reports[session] = report.payload()
        return self._reports[session]

    def session(self, query: Query) -> Session:
        """Return the session that a request names by `rank` and `session`.

        The lowest rank and the session that the report is about are the default.
        """
        ranks = {rank: records for rank, records in self.ranks.items() if records.sessions}
        if not ranks:
            said = [text for one in self.ranks.values() for text in (one.newer, *one.warnings)]
            why = next((f": {text}" for text in said if text), ".")
            raise QueryError(f"{self.name} holds no session that this version can read{why}")
        rank = query.integer("rank", default=min(ranks), low=0, high=2**31)
        if rank not in ranks:
            known = rank_list(sorted(ranks))
            raise QueryError(f"{self.name} has no rank {rank}; its ranks are {known}.")
        try:
            return choose_session(ranks[rank], self.session_number(query))
        except RecordError as error:
            raise QueryError(str(error)) from error

    @staticmethod
    def session_number(query: Query) -> int | None:
        """Return the session that a request names, None where it names none."""
        wanted = query.integer("session", default=-1, low=0, high=2**31)
        return None if wanted < 0 else wanted

    def cycles(self) -> list[tuple[int, ProfilerCycle]]:
        """Return (rank, cycle) of every finished profiler cycle, in the order written."""
        return [
            (rank, cycle)
            for rank, records in self.ranks.items()
            for session in records.sessions
            for cycle in session.all(ProfilerCycle)
        ]

    def trace_path(self, name: str) -> str:
        """Return the path of a trace file by its name, which the run's records must know."""
        known = {cycle.trace_file for _, cycle in self.cycles()}
        path = os.path.join(self.folder, name)
        # Record files come from anywhere: a name with a folder in it is none of ours.
        if name not in known or os.path.basename(name) != name or not self.fs.exists(path):
            raise QueryError(f"{self.name} has no trace file {name[:80]!r}.")
        folder = os.path.realpath(self.folder)
        if self.fs is LOCAL and os.path.dirname(os.path.realpath(path)) != folder:
            raise QueryError(f"{self.name} has no trace file {name[:80]!r}, only a link.")
        return path

    def analysis(self, trace_file: str) -> dict[str, Any] | None:
        """Return a trace's analysis, None where there is none that can be read."""
        if os.path.basename(trace_file) != trace_file:
            return None
        try:
            return read_analysis(os.path.join(self.folder, trace_file), self.fs)
        except TraceError:
            return None
