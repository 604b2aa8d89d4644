"""The child process of `lightning-gpuprof plan`: requests in, predictions out, a line of JSON each.

A process of its own, because the user's model is imported in it and operators are replaced.
"""

import sys
from typing import Any

import msgspec

from lightning_gpuprof.probes.batch_size import plan_model
from lightning_gpuprof.probes.batch_size.model_child import serve
from lightning_gpuprof.probes.batch_size.plan import predict
from lightning_gpuprof.probes.batch_size.plan_types import PlanRequest


def answer(line: str) -> dict[str, Any]:
    """Return the reply to one request: `points`, or `error` with what to do."""
    request = msgspec.json.decode(line, type=PlanRequest)
    make = plan_model.load(request.model)
    points = predict(
        make,
        request.batch_sizes,
        optimizer=request.optimizer,
        precision=request.precision,
        workspace_bytes=request.workspace_bytes,
    )
    return {"points": points}


if __name__ == "__main__":
    sys.exit(serve(answer))
