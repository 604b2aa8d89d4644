"""Replies as TensorBoard sends them, and our errors as sentences."""

import logging
from collections.abc import Callable
from typing import Any

from tensorboard.backend import http_util
from werkzeug import Request, Response

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.report.charts.query import QueryError

App = Callable[[Any, Any], Any]
Handler = Callable[[Request], Response]
_log = logging.getLogger(__name__)
_METHODS = ("GET", "HEAD")


class NotFoundError(GpuProfError):
    """Something that a request names is not there."""


def reply_json(request: Request, payload: Any, code: int = 200) -> Response:
    """Answer with JSON."""
    # msgspec: a reply of a thousand buckets takes it a tenth of the time that json takes.
    import msgspec  # not at TensorBoard's start

    return reply(request, msgspec.json.encode(payload), "application/json", code=code)


def reply(request: Request, content: bytes, mime_type: str, **options: Any) -> Response:
    """Answer with content of any type; options as of TensorBoard's own `Respond`."""
    response: Response = http_util.Respond(request, content, mime_type, **options)
    return response


def route(handler: Handler) -> App:
    """Make a handler a WSGI application that answers our errors with their sentence."""

    def answer(request: Request) -> Response:
        if request.method not in _METHODS:
            refused = reply_json(request, {"error": "All routes are read only: use GET."}, code=405)
            refused.headers["Allow"] = ", ".join(_METHODS)
            return refused
        try:
            if "\0" in request.path or any("\0" in text for text in request.args.values()):
                raise QueryError("The request holds a NUL character, which no name does.")
            return handler(request)
        except QueryError as error:
            return reply_json(request, {"error": str(error)}, code=400)
        except GpuProfError as error:
            return reply_json(request, {"error": str(error)}, code=404)
        except OSError as error:
            sentence = f"A file of this run could not be read: {error}. Is it being moved?"
            return reply_json(request, {"error": sentence}, code=404)
        except Exception as error:  # noqa: BLE001 - the last resort: one page fails, not the tab
            _log.exception("The PROFILE tab could not answer %s", request.path)
            sentence = f"This cannot be shown ({type(error).__name__}); TensorBoard's log says why."
            return reply_json(request, {"error": sentence}, code=500)

    app: App = Request.application(answer)
    return app
