"""What a child process that runs the user's model says where their code fails."""

import logging
import os
import sys
import traceback
from types import TracebackType

import torch

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NOT_THE_USERS = (os.path.dirname(os.path.abspath(torch.__file__)), _PACKAGE, "<")


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
