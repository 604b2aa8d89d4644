"""The child process of a trial: one request on stdin, one reply on stdout.

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
from lightning_gpuprof.trials.cards import Plan
from lightning_gpuprof.trials.measure import measure
from lightning_gpuprof.trials.messages import Answer, PlanRequest, TunePoint, TuneRequest
from lightning_gpuprof.trials.plan import plan_as_asked
from lightning_gpuprof.trials.user_model import load

_PACKAGE = os.path.dirname(lightning_gpuprof.__file__)
_NOT_THE_USERS = (os.path.dirname(os.path.abspath(torch.__file__)), _PACKAGE, "<")


def answer(request: PlanRequest | TuneRequest) -> Plan | TunePoint:
    """Return the result of a request."""
    if isinstance(request, TuneRequest):
        return measure(request)
    return plan_as_asked(load(request.model), request)


def main() -> None:
    """Answer the request on stdin, and end whatever threads the model has left."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of the model must not mix with the reply
    # Fake tensors log the same error with their own traceback before they raise it.
    logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
    sys.excepthook = _show
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=PlanRequest | TuneRequest)
    try:
        reply = Answer(result=msgspec.Raw(msgspec.json.encode(answer(request))))
    except GpuProfError as error:
        reply = Answer(error=str(error))
    replies.write(msgspec.json.encode(reply))
    replies.flush()
    _end(0)


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


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(users_part(error))
    _end(1)


def _end(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
