"""What the routes of a run answer; imported at the first request, with all that views need."""

import os

from werkzeug import Request, Response

from lightning_gpuprof.records.files import LOCAL
from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.tb_plugin.gfile import file_system_for
from lightning_gpuprof.tb_plugin.perfetto_files import perfetto_folder
from lightning_gpuprof.tb_plugin.preparer import SNAPSHOT, Preparer, starter
from lightning_gpuprof.tb_plugin.renewals import Renewals
from lightning_gpuprof.tb_plugin.replies import NotFoundError, reply, reply_json, stream
from lightning_gpuprof.tb_plugin.run_cache import RunCache
from lightning_gpuprof.tb_plugin.run_index import RunIndex
from lightning_gpuprof.tb_plugin.summaries import Summaries
from lightning_gpuprof.views.documents.compare import compare_runs
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError
from lightning_gpuprof.views.tab.runs import runs_view
from lightning_gpuprof.views.tab.tab import find_view


class Answers:
    """Finds the run that a request names and asks a view about it.

    Args:
        index: Knows the runs.
    """

    def __init__(self, index: RunIndex) -> None:
        self._index = index
        self._runs = RunCache()
        self._timelines = Preparer()
        self._sites = Preparer(starter(SNAPSHOT))
        self._summaries = Summaries()
        self._renewals = Renewals()

    def list_runs(self, request: Request) -> Response:
        """Answer `/runs`."""
        runs = self._index.runs()
        listed = {
            "runs": runs_view(runs, file_system_for),
            "roots": [path for _, path in self._index.roots],
            "missing": self._index.missing(),
            "schema_version": SCHEMA_VERSION,
            "perfetto": perfetto_folder() is not None,
        }
        return reply_json(request, listed)

    def view(self, name: str, request: Request) -> Response:
        """Answer the route of a view."""
        run = self._run(request)
        renewing = self._renewals.want(run)
        if (kept := run.summed_up(name, request.args)) is not None:
            return reply_json(request, kept)
        payload = find_view(name)(run, Query(request.args))
        if not renewing:  # else it would soon be of older files
            self._summaries.want(run)
        if isinstance(payload, bytes):
            return reply(request, payload, "application/octet-stream")
        if payload.get("state") == "not-prepared" and run.fs is LOCAL:
            if name == "memory_sites":
                payload |= self._sites.state(os.path.join(run.folder, payload["file"]))
            else:
                payload |= self._timelines.state(run.trace_path(payload["trace"]))
        return reply_json(request, payload)

    def compare(self, request: Request) -> Response:
        """Answer `/compare`."""
        new, base = self._run(request), self._run(request, "base")
        return reply_json(request, compare_runs(base.path, new.path).payload())

    def trace(self, request: Request) -> Response:
        """Answer `/trace`."""
        run = self._run(request)
        name = request.args.get("file", "")
        try:
            path = run.trace_path(name)
        except QueryError as error:
            raise NotFoundError(str(error)) from error
        quoted = name.replace("\\", "_").replace('"', "_")
        headers = [("Content-Disposition", f'attachment; filename="{quoted}"')]
        # Not content_encoding="gzip": the viewer is to get the file as it lies on disk.
        if run.fs is LOCAL:
            return stream(request, path, "application/gzip", headers)
        content = run.fs.read_bytes(path)
        return reply(request, content, "application/gzip", headers=headers)

    def _run(self, request: Request, parameter: str = "run") -> LoadedRun:
        name = request.args.get(parameter)
        if not name:
            raise QueryError(
                f"The request names no {parameter}: add {parameter}=NAME, one of those of /runs."
            )
        path = self._index.runs().get(name)
        if path is None:
            raise NotFoundError(
                f"There is no run {name[:80]!r} with records of lightning_gpuprof under "
                "TensorBoard's log dir."
            )
        return self._runs.get(name, path, self._index.root_of(path), file_system_for(path))
