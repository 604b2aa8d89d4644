"""Values that ranks share in a fit through the store of the process group, without a collective."""

import os
import socket
from datetime import timedelta
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.adapters.process_group import fit_store
from lightning_gpuprof.runtime.guard import attempt

SESSION = "session"
"""Key of rank 0's log dir and session number."""
TIMEOUT = timedelta(seconds=5)
"""The longest wait for rank 0's log dir. The process group's own timeout is several minutes."""


class RankStore:
    """The values of a fit in the process group's store.

    Rank 0 sets its log dir, and the other ranks wait up to `TIMEOUT` for it. On every other machine
    the first rank sets the machine's name. Rank 0 does not wait for these names: its record file
    holds those that have been set by the time it begins. Without a store, and if a call of the
    store fails, there are no values.
    """

    def __init__(self, store: Any = None, nodes: int = 1) -> None:
        self._store = store
        self._host_keys = [_host_key(node) for node in range(1, nodes)]

    @classmethod
    def of(cls, trainer: Trainer) -> "RankStore":
        """Return a Trainer's store. The first rank of each other machine sets the machine name."""
        store = attempt(fit_store, None) if trainer.world_size > 1 else None
        ranks = cls(store, trainer.num_nodes)
        if trainer.local_rank == 0 and not trainer.is_global_zero:
            ranks.set(_host_key(trainer.node_rank), socket.gethostname())
        return ranks

    def set(self, key: str, value: str) -> None:
        """Set a value for all ranks."""
        attempt(lambda: self._store.set(key, os.fsencode(value)), None)

    def get(self, key: str, *, timeout: timedelta | None = None) -> str:
        """Return the value of a key, or "" if it has none. With a timeout, wait for the value."""
        if timeout is not None:
            attempt(lambda: self._store.wait([key], timeout), None)
        # For a missing key the store's own `get` would wait until the process group's timeout.
        exists = attempt(lambda: self._store.check([key]), False)
        return attempt(lambda: os.fsdecode(self._store.get(key)), "") if exists else ""

    def hosts(self) -> list[str]:
        """Return the machines' names by node rank, "" if not set; [] if there is one machine."""
        names = [self.get(key) for key in self._host_keys]
        return [socket.gethostname(), *names] if names else []

    def close(self, *, delete: bool) -> None:
        """Drop the store. Rank 0 also deletes the fit's keys, which all ranks have read by now."""
        store, self._store = self._store, None
        for key in (SESSION, *self._host_keys) if delete and store is not None else ():
            attempt(partial(store.delete_key, key), None)


def _host_key(node: int) -> str:
    return f"host{node}"
