"""Calls at the end of a backward pass, and the trace of anomaly detection in a graph.

Private name in torch 2.2 to 2.13, which DDP uses too. Without it nothing is called:
    torch.autograd.Variable._execution_engine.queue_callback
"""

from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.adapters.names import reach

STACK_OF_NODE = "traceback_"
"""The key of a node's metadata under which anomaly detection stores the stack that created it."""


def at_end_of_backward(call: Callable[[], None]) -> bool:
    """Call a function at the end of the running backward pass. Return whether torch can do so."""
    queue: Any = reach(torch.autograd, "Variable._execution_engine.queue_callback")
    if queue is None:
        return False
    queue(call)
    return True
