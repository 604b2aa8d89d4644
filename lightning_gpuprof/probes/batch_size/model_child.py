"""A child process that runs the user's model: requests in, replies out, a line of JSON each.

Where the user's own code fails, their part of the traceback goes to stderr, and no reply.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec
import torch

import lightning_gpuprof
from lightning_gpuprof.errors import GpuProfError

_PACKAGE = os.path.dirname(lightning_gpuprof.__file__)
_NOT_THE_USERS = (os.path.dirname(os.path.abspath(torch.__file__)), _PACKAGE, "<")


def serve(answer: Callable[[str], dict[str, Any]]) -> int:
    """Answer the requests on stdin until there are no more; returns the exit status.

    Args:
        answer: Returns the reply to one request. A `GpuProfError` becomes a reply's `error`.
    """
    # What the model prints must not get between the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tell_users_part()
    for line in sys.stdin:
        try:
            reply = answer(line)
        except GpuProfError as error:
            reply = {"error": str(error)}
        replies.write(msgspec.json.encode(reply).decode() + "\n")
        replies.flush()
    return 0


def users_part(error: BaseException) -> str:
    """Return an error's traceback without the frames of torch and of this package.

    One without any other frame is told whole: the mistake is not the user's.
    """
    told = traceback.TracebackException.from_exception(error)
    own = [frame for frame in told.stack if not frame.filename.startswith(_NOT_THE_USERS)]
    if own:
        told.stack = traceback.StackSummary.from_list(own)
        told.__context__ = None
    return "".join(told.format())


def tell_users_part() -> None:
    """Have this process end with the user's part of a traceback on stderr."""
    # Fake tensors log the same error with their own traceback before they raise it.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    sys.excepthook = _tell


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(users_part(error))
