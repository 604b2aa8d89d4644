"""The child process of `lightning-gpuprof tune`: one request on stdin, one answer on stdout."""

import sys
from typing import Any

import msgspec

from lightning_gpuprof.probes.batch_size.model_child import serve
from lightning_gpuprof.probes.batch_size.tune import measure
from lightning_gpuprof.probes.batch_size.tune_types import TuneRequest


def answer(line: str) -> dict[str, Any]:
    """Return the reply to one request: `point`, or `error` with what to do."""
    return {"point": measure(msgspec.json.decode(line, type=TuneRequest))}


if __name__ == "__main__":
    sys.exit(serve(answer))
