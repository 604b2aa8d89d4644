"""The store of torch's default process group, by which ranks share values without a collective.

Private names in torch 2.2 to 2.13, and what happens without them:
    torch.distributed.distributed_c10d._get_default_store: ranks share no values
    ProcessGroup._get_sequence_number_for_group: the keys of all fits have the same prefix
"""

from contextlib import suppress
from typing import Any

import torch


def fit_store() -> Any:
    """Return the store, with a key prefix that is the same on all ranks and differs between fits.

    The prefix is the number of collectives so far. All ranks have made equally many when they come
    here, and every fit of Lightning makes further ones. Raises if there is no process group.
    """
    distributed: Any = torch.distributed
    store, collectives = distributed.distributed_c10d._get_default_store(), 0
    with suppress(AttributeError, RuntimeError):  # raised by a backend that does not count
        collectives = distributed.group.WORLD._get_sequence_number_for_group()
    return distributed.PrefixStore(f"lightning_gpuprof/{collectives}", store)
