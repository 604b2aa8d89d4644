"""A run that is read once for all views that show it."""

import os
from functools import cached_property

from lightning_gpuprof.analysis.job.job_tables import JobTraces
from lightning_gpuprof.analysis.job.read_job import JobFiles, job_files
from lightning_gpuprof.analysis.run.sessions import choose_session
from lightning_gpuprof.analysis.trace_tables import TraceAnalysis
from lightning_gpuprof.errors import RecordError, TraceError
from lightning_gpuprof.findings.trace_findings import judge_trace
from lightning_gpuprof.records.files import LOCAL, FileSystem, is_trace, run_folder, written_unix_ns
from lightning_gpuprof.records.reader import RankRecords, RunReader, Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, ProfilerCycle, RunStart
from lightning_gpuprof.report.build_job import job_document
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.build_trace import trace_document, unanalysed_document
from lightning_gpuprof.report.charts.layout_file import LoadedLayout
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.document import Document
from lightning_gpuprof.report.load import Report, load_report
from lightning_gpuprof.report.notices import rank_list
from lightning_gpuprof.report.stored_analysis import read_analysis, stale_traces
from lightning_gpuprof.report.stored_job import read_stored_job

_TRACES_ONLY = (
    "Traces only, without records of GpuProfCallback: step times, operators and findings are of "
    "the profiled steps; phases and memory are not known."
)


class LoadedRun:
    """One run's records and trace analyses, each read at first use.

    Args:
        path: The run's log dir.
        fs: Where that is.
        name: What the run is called; by default as its folder.
        reader: Reads the records; one that has read them before reads what was added.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem = LOCAL,
        name: str = "",
        reader: RunReader | None = None,
    ) -> None:
        self.path = path
        self.fs = fs
        self.name = name or os.path.basename(os.path.normpath(path))
        self.folder = run_folder(path, fs)
        self.reader = reader or RunReader(path, fs)
        self._reports: dict[int | None, Report] = {}
        self._whole: RankRecords | None = None
        self.layouts: dict[str, LoadedLayout] = {}
        """The analyses that were asked for so far, by trace file."""

    @cached_property
    def ranks(self) -> dict[int, RankRecords]:
        """Every rank's records."""
        if self.has_only_traces:
            return trace_records(self.path, self.fs)
        return self.reader.read()

    @cached_property
    def stale_traces(self) -> list[str]:
        """The run's traces on local disks that this version should analyse."""
        return stale_traces(self.path) if self.fs is LOCAL else []

    @cached_property
    def job_files(self) -> JobFiles | None:
        """The traces of all ranks; None if there are not several, or on remote disks."""
        is_there = self.fs is LOCAL and os.path.isdir(self.folder)
        return job_files([self.folder]) if is_there else None

    @cached_property
    def job(self) -> JobTraces | None:
        """What the traces of all ranks say together; None if that is to be made first."""
        files = self.job_files
        return None if files is None else read_stored_job(self.folder, files)

    def report(self, query: Query) -> Report:
        """Return the report on the session that a request names."""
        session = self.session_number(query)
        if session not in self._reports:
            self._reports[session] = (
                self._of_traces()
                if self.has_only_traces
                else load_report(self.path, self.fs, session=session, ranks=self.ranks)
            )
        return self._reports[session]

    def document(self, query: Query) -> Document:
        """Return the document that `lightning-gpuprof report --json` prints."""
        if not self.has_only_traces:
            return build_run(self.report(query))
        if self.job is not None:
            return job_document(self.job, self.name)
        analysis = None if self.job_files is not None else self.last_analysis()
        if analysis is None:
            return unanalysed_document(self.name)
        return trace_document(analysis, name=self.name, notices=(_TRACES_ONLY,))

    @property
    def has_only_traces(self) -> bool:
        """Whether the folder holds only traces, and no records of steps."""
        return self.folder == self.path

    def last_analysis(self) -> TraceAnalysis | None:
        """Return the analysis of the last cycle that has one."""
        analyses = (self.analysis(cycle.trace_file) for _, cycle in reversed(self.cycles()))
        return next((analysis for analysis in analyses if analysis is not None), None)

    def _of_traces(self) -> Report:
        """Judge the last analysed trace of a folder that holds traces alone."""
        analysis = self.last_analysis()
        results, judged = judge_trace(analysis or TraceAnalysis())
        return Report(
            run=self.path,
            results=results,
            findings=judged.findings,
            abstained=judged.abstained if judged.findings else (),
            silent=(),
            notices=(),
            trials=None,
        )

    def session(self, query: Query) -> Session:
        """Return the session that a request names by `rank` and `session`.

        By default it is the lowest rank, and the session that the report describes.
        """
        ranks = {rank: records for rank, records in self.ranks.items() if records.sessions}
        if not ranks:
            texts = (text for rank in self.ranks.values() for text in (rank.newer, *rank.warnings))
            why = next((f": {text}" for text in texts if text), ".")
            raise QueryError(f"{self.name} holds no session that this version can read{why}")
        rank = query.integer("rank", default=min(ranks), low=0, high=2**31)
        if rank not in ranks:
            existing = rank_list(sorted(ranks))
            raise QueryError(f"{self.name} has no rank {rank}; its ranks are {existing}.")
        records = ranks[rank]
        if any(session.rollup is not None for session in records.sessions):
            records = self._whole_rank(rank)
        try:
            return choose_session(records, self.session_number(query))
        except RecordError as error:
            raise QueryError(str(error)) from error

    def _whole_rank(self, rank: int) -> RankRecords:
        """Return a rank's records with all steps, where `ranks` holds those for comparing alone."""
        if self._whole is None or self._whole.rank != rank:
            self._whole = self.reader.whole(rank)
        return self._whole

    @staticmethod
    def session_number(query: Query) -> int | None:
        """Return the number of the session that a request names; None if it names none."""
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
        """Return the path of a trace file, whose name must occur in the run's records."""
        recorded = {cycle.trace_file for _, cycle in self.cycles()}
        path = os.path.join(self.folder, name)
        # Record files may be forged: this package writes no name with a folder in it.
        if name not in recorded or os.path.basename(name) != name or not self.fs.exists(path):
            raise QueryError(f"{self.name} has no trace file {name[:80]!r}.")
        folder = os.path.realpath(self.folder)
        if self.fs is LOCAL and os.path.dirname(os.path.realpath(path)) != folder:
            raise QueryError(f"{self.name} has no trace file {name[:80]!r}, only a link.")
        return path

    def analysis(self, trace_file: str) -> TraceAnalysis | None:
        """Return a trace's analysis; None if there is none, or it cannot be read."""
        if os.path.basename(trace_file) != trace_file:
            return None
        try:
            return read_analysis(os.path.join(self.folder, trace_file), self.fs)
        except TraceError:
            return None


def trace_records(folder: str, fs: FileSystem = LOCAL) -> dict[int, RankRecords]:
    """Return one session of one rank whose cycles are the folder's traces, the oldest first."""
    written = {name: written_unix_ns(folder, [name], fs) for name in fs.listdir(folder)}
    names = sorted(filter(is_trace, written), key=lambda name: (written[name], name))
    version, began = SCHEMA_VERSION, max((written[name] for name in names), default=0)
    start = RunStart(version, session=0, stage="fit", started_unix_ns=began, rank=0)
    cycles = [
        ProfilerCycle(cycle=number, first_step=0, last_step=0, trace_file=name)
        for number, name in enumerate(names)
    ]
    return {0: RankRecords(0, (Session(start, tuple(cycles), {}),), ())}
