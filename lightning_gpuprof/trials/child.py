"""Starts the process that runs the user's model, and talks with it; loads no torch itself."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import msgspec
from typing_extensions import Self

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.messages import (
    CUBLAS_WORKSPACE_BYTES,
    PlanPoint,
    PlanRequest,
    Reply,
    TunePoint,
    TuneRequest,
)

COMMAND = [sys.executable, "-m", "lightning_gpuprof.trials.serve"]
_END_S = 10.0
"""How long a child may take to end; threads that the user's code left can keep it alive."""


class ModelChild:
    """A child process that answers requests, so that the caller loads neither torch nor the model.

    Its end frees all memory that a trial took.
    """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @property
    def signal(self) -> int:
        """The signal that ended the child."""
        return -(self._process.returncode or 0)

    def ask(self, request: PlanRequest | TuneRequest) -> Reply | None:
        """Return the reply to a request, or None where the child was killed by a signal.

        Raises:
            ConfigError: The model cannot be used, or its code failed.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # the child has ended, and so has the pipe read below
            process.stdin.write(msgspec.json.encode(request).decode() + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if line:
            reply = msgspec.json.decode(line, type=Reply)
            if reply.error is not None:
                raise ConfigError(f"{request.model}: {reply.error}")
            return reply
        status = process.wait()
        if status < 0:
            return None
        raise ConfigError(
            f"The process that ran {request.model} ended with status {status} before it answered; "
            "its own message is above."
        )


class PlanChild(ModelChild):
    """Predicts in a child process.

    Args:
        model: `package.module:function` or `file.py:function`.
        optimizer: One of `OPTIMIZERS`.
        precision: One of `PRECISIONS`.
        workspace_bytes: Of each cuBLAS handle.
    """

    def __init__(
        self,
        model: str,
        *,
        optimizer: str,
        precision: str,
        workspace_bytes: int = CUBLAS_WORKSPACE_BYTES,
    ) -> None:
        self._request = PlanRequest(
            model=model,
            batch_sizes=(),
            optimizer=optimizer,
            precision=precision,
            workspace_bytes=workspace_bytes,
        )

    def predict(self, batch_sizes: Sequence[int]) -> list[PlanPoint]:
        """Predict at each batch size.

        Raises:
            ConfigError: The model cannot be planned with, or its code failed.
        """
        request = msgspec.structs.replace(self._request, batch_sizes=tuple(batch_sizes))
        reply = self.ask(request)
        if reply is None:
            raise ConfigError(f"The process that planned {request.model} was killed.")
        return reply.points


def measure_in_child(request: TuneRequest) -> TunePoint:
    """Measure one batch size in a process of its own.

    A killed child (the system may run out of memory) is a point with an error.

    Raises:
        ConfigError: The model cannot be measured, or its code failed.
    """
    with ModelChild() as child:
        reply = child.ask(request)
    if reply is not None and reply.point is not None:
        return reply.point
    return TunePoint(
        batch_size=request.batch_size, error=f"the process was killed by signal {child.signal}"
    )
