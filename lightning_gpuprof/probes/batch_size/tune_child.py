"""Starts the processes that measure, one per batch size; loads no torch itself."""

import subprocess
import sys

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.batch_size.tune_types import TunePoint, TuneRequest

COMMAND = [sys.executable, "-m", "lightning_gpuprof.probes.batch_size.tune_run"]


class _Reply(msgspec.Struct):
    point: TunePoint | None = None
    error: str | None = None


def measure_in_child(request: TuneRequest) -> TunePoint:
    """Measure one batch size in a process of its own, whose end frees all that it took.

    A child that is killed (by the system, where memory ran out) is a point with an error.

    Raises:
        ConfigError: The model cannot be measured, or its code failed.
    """
    written = msgspec.json.encode(request).decode() + "\n"
    ended = subprocess.run(COMMAND, input=written, stdout=subprocess.PIPE, text=True, check=False)
    if ended.stdout:
        reply = msgspec.json.decode(ended.stdout, type=_Reply)
        if reply.point is not None:
            return reply.point
        raise ConfigError(f"{request.model}: {reply.error}")
    if ended.returncode < 0:
        return TunePoint(
            batch_size=request.batch_size,
            error=f"the process was killed by signal {-ended.returncode}",
        )
    raise ConfigError(
        f"The process that measured {request.model} at {request.batch_size} ended with status "
        f"{ended.returncode} before it answered; what it said is above."
    )
