"""The child process of a trial: requests on stdin, replies on stdout, a line of JSON each.

Where the user's own code fails, their part of the traceback goes to stderr and no reply comes.
"""

import logging
import os
import sys
import traceback
from types import TracebackType

import msgspec
import torch

import lightning_gpuprof
from lightning_gpuprof.adapters.fake_tensors import LOGGER
from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.trials import user_model
from lightning_gpuprof.trials.measure import measure
from lightning_gpuprof.trials.messages import PlanRequest, Reply, TuneRequest
from lightning_gpuprof.trials.predict import predict

_PACKAGE = os.path.dirname(lightning_gpuprof.__file__)
_NOT_THE_USERS = (os.path.dirname(os.path.abspath(torch.__file__)), _PACKAGE, "<")


def answer(request: PlanRequest | TuneRequest) -> Reply:
    """Return the reply to a request; a `GpuProfError` becomes the reply's `error`."""
    try:
        if isinstance(request, TuneRequest):
            return Reply(point=measure(request))
        points = predict(
            user_model.load(request.model),
            request.batch_sizes,
            optimizer=request.optimizer,
            precision=request.precision,
            workspace_bytes=request.workspace_bytes,
        )
        return Reply(points=points)
    except GpuProfError as error:
        return Reply(error=str(error))


def serve() -> None:
    """Answer the requests on stdin until there are no more."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # prints of the model must not mix with the replies
    show_users_part()
    for line in sys.stdin:
        reply = answer(msgspec.json.decode(line, type=PlanRequest | TuneRequest))
        replies.write(msgspec.json.encode(reply).decode() + "\n")
        replies.flush()


def users_part(error: BaseException) -> str:
    """Return an error's traceback without the frames of torch and of this package.

    An error with no other frames is shown whole: the mistake is not the user's.
    """
    shown = traceback.TracebackException.from_exception(error)
    own = [frame for frame in shown.stack if not frame.filename.startswith(_NOT_THE_USERS)]
    if own:
        shown.stack = traceback.StackSummary.from_list(own)
        shown.__context__ = None
    return "".join(shown.format())


def show_users_part() -> None:
    """Make this process end with the user's part of a traceback on stderr."""
    # Fake tensors log the same error with their own traceback before they raise it.
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
    sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(users_part(error))


if __name__ == "__main__":
    serve()
