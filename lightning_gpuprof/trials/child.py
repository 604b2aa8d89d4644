"""Runs a request in a child process, so that the caller loads neither torch nor the model."""

import subprocess
import sys
from typing import TypeVar

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.messages import Answer, PlanRequest, TuneRequest

COMMAND = [sys.executable, "-m", "lightning_gpuprof.trials.serve"]
_Result = TypeVar("_Result")


class KilledError(ConfigError):
    """A signal ended the child; the system may have run out of memory."""


def ask(request: PlanRequest | TuneRequest, kind: type[_Result]) -> _Result:
    """Return the result of a request; the child's end frees all memory that it took.

    Raises:
        ConfigError: The model cannot be used, or its code failed.
    """
    sent = msgspec.json.encode(request)
    done = subprocess.run(COMMAND, input=sent, stdout=subprocess.PIPE, check=False)
    if done.returncode < 0:
        raise KilledError(f"the process was killed by signal {-done.returncode}")
    if done.returncode:
        raise ConfigError(
            f"The process that ran {request.model} ended with status {done.returncode} before it "
            "answered; its own message is above."
        )
    answer = msgspec.json.decode(done.stdout, type=Answer)
    if answer.error is not None:
        raise ConfigError(f"{request.model}: {answer.error}")
    return msgspec.json.decode(answer.result, type=kind)
