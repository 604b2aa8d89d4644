"""Starts the process that predicts, and talks with it; loads no torch itself."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.plan_types import (
    CUBLAS_WORKSPACE_BYTES,
    PlanPoint,
    PlanRequest,
)

COMMAND = [sys.executable, "-m", "lightning_gpuprof.probes.batch_size.plan_run"]
_END_S = 10.0
"""A child without further requests ends at once, but for threads that the user's code left."""


class _Reply(msgspec.Struct):
    points: list[PlanPoint] = []
    error: str | None = None


class PlanChild:
    """Predicts in a child process, so that the caller loads neither torch nor the user's model.

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
        self._model, self._optimizer, self._precision = model, optimizer, precision
        self._workspace_bytes = workspace_bytes
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "PlanChild":
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
        assert self._process is not None
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def predict(self, batch_sizes: Sequence[int]) -> list[PlanPoint]:
        """Predict at each batch size.

        Raises:
            ConfigError: The model cannot be planned with, or its code failed.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        request = PlanRequest(
            model=self._model,
            batch_sizes=tuple(batch_sizes),
            optimizer=self._optimizer,
            precision=self._precision,
            workspace_bytes=self._workspace_bytes,
        )
        with suppress(BrokenPipeError):  # it has ended: so does the pipe that is read
            process.stdin.write(msgspec.json.encode(request).decode() + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise ConfigError(
                f"The process that planned {self._model} ended with status {process.wait()} "
                "before it answered; what it said is above."
            )
        reply = msgspec.json.decode(line, type=_Reply)
        if reply.error is not None:
            raise ConfigError(f"{self._model}: {reply.error}")
        return reply.points
