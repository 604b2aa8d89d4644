"""The child process of `lightning-gpuprof tune`: one request on stdin, one answer on stdout."""

import os
import sys
from typing import Any, TextIO

import msgspec

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.probes.child_errors import tell_users_part
from lightning_gpuprof.probes.tune import measure
from lightning_gpuprof.probes.tune_types import TuneRequest


def main(requests: TextIO, replies: TextIO) -> int:
    """Answer the request; where the user's own code fails, its traceback goes to stderr."""
    request = msgspec.json.decode(requests.readline(), type=TuneRequest)
    reply: dict[str, Any]
    try:
        reply = {"point": measure(request)}
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
