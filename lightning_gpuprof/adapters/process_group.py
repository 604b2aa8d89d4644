"""The store of torch's default process group: values between ranks without a collective.

Private names, seen in torch 2.2 to 2.13, and what happens without them:
    torch.distributed.distributed_c10d._get_default_store: ranks tell each other nothing
    ProcessGroup._get_sequence_number_for_group: the keys of all fits have one prefix
"""

from contextlib import suppress
from typing import Any

import torch


def fit_store() -> Any:
    """Return the store, under a prefix that all ranks know and that no other fit has.

    The prefix is the number of collectives so far: ranks that have come to the same place have made
    as many, and Lightning makes some in each fit. Raises where there is no process group.
    """
    distributed: Any = torch.distributed
    store, made = distributed.distributed_c10d._get_default_store(), 0
    with suppress(AttributeError, RuntimeError):  # of a backend that does not count
        made = distributed.group.WORLD._get_sequence_number_for_group()
    return distributed.PrefixStore(f"lightning_gpuprof/{made}", store)
