"""Calls at the end of a backward pass, and what anomaly detection leaves in a graph.

Private name, seen in torch 2.2 to 2.13; it is what DDP uses. Without it nothing is called:
    torch.autograd.Variable._execution_engine.queue_callback
"""

from collections.abc import Callable
from typing import Any

import torch

from lightning_gpuprof.adapters.names import reach

STACK_OF_NODE = "traceback_"
"""Key of a node's metadata under which anomaly detection keeps the stack that made it."""


def at_end_of_backward(call: Callable[[], None]) -> bool:
    """Call a function as the backward pass that runs now ends; False where torch cannot."""
    queue: Any = reach(torch.autograd, "Variable._execution_engine.queue_callback")
    if queue is None:
        return False
    queue(call)
    return True
