"""What this package computes for itself is none of what the program's modes are told of."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.utils import _python_dispatch


@contextmanager
def unseen() -> Iterator[None]:
    """Let no mode that the program has open be told of what runs inside.

    It may count (`FlopCounterMode`), or do something else than it is asked for.

    >>> from torch.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter, unseen():
    ...     _ = torch.ones(2, 2) @ torch.ones(2, 2)
    >>> counter.get_total_flops()
    0
    """
    with torch._C.DisableTorchFunction(), _no_dispatch_modes():
        yield


def _no_dispatch_modes() -> Any:
    # Only where there are any: torch imports a good deal to put them aside.
    some = torch._C._len_torch_dispatch_stack() > 0
    return _python_dispatch._disable_current_modes() if some else nullcontext()
