"""The child process of `lightning-gpuprof plan`: requests in, predictions out, a line of JSON each.

A process of its own, because the user's model is imported in it and operators are replaced.
"""

import os
import sys
from typing import Any, TextIO

import msgspec

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.probes import plan_model
from lightning_gpuprof.probes.child_errors import tell_users_part
from lightning_gpuprof.probes.plan import predict
from lightning_gpuprof.probes.plan_types import PlanRequest


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


def main(requests: TextIO, replies: TextIO) -> int:
    """Answer requests until there are no more.

    Where the user's own code fails, their part of the traceback goes to stderr, and no reply.
    """
    for line in requests:
        try:
            reply = answer(line)
        except GpuProfError as error:
            reply = {"error": str(error)}
        replies.write(msgspec.json.encode(reply).decode() + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    # What the model prints must not get between the replies.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tell_users_part()
    sys.exit(main(sys.stdin, channel))
