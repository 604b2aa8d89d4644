"""Values that ranks share in a fit, in the process group's store: no collective is added."""

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
"""The longest wait for rank 0's log dir; the process group's own timeout is of minutes."""


class RankStore:
    """This fit's keys in the process group's store; a failing call counts as no value.

    Rank 0 sets its log dir, for which others wait `TIMEOUT` at most. On each further machine the
    first rank sets the machine's name, for which nobody waits: rank 0 takes the names that are
    there when its record file begins. Without a store there are no values.
    """

    def __init__(self, store: Any = None, nodes: int = 1) -> None:
        self._store = store
        self._host_keys = [_host_key(node) for node in range(1, nodes)]

    @classmethod
    def of(cls, trainer: Trainer) -> "RankStore":
        """Return a Trainer's store, after setting this machine's name where this rank has to."""
        store = attempt(fit_store, None) if trainer.world_size > 1 else None
        ranks = cls(store, trainer.num_nodes)
        if trainer.local_rank == 0 and not trainer.is_global_zero:
            ranks.set(_host_key(trainer.node_rank), socket.gethostname())
        return ranks

    def set(self, key: str, value: str) -> None:
        """Set a value for all ranks."""
        attempt(lambda: self._store.set(key, os.fsencode(value)), None)

    def get(self, key: str, *, timeout: timedelta | None = None) -> str:
        """Return a key's value, "" for none; with a timeout, wait so long for it at most."""
        if timeout is not None:
            attempt(lambda: self._store.wait([key], timeout), None)
        # The store's own `get` would wait for a missing key as long as the process group may.
        exists = attempt(lambda: self._store.check([key]), False)
        return attempt(lambda: os.fsdecode(self._store.get(key)), "") if exists else ""

    def hosts(self) -> list[str]:
        """Return the machines' names by node, "" where not set; [] for a single machine."""
        names = [self.get(key) for key in self._host_keys]
        return [socket.gethostname(), *names] if names else []

    def close(self, *, delete: bool) -> None:
        """Let go of the store; rank 0 deletes the fit's keys, which all ranks have read by now."""
        store, self._store = self._store, None
        for key in (SESSION, *self._host_keys) if delete and store is not None else ():
            attempt(partial(store.delete_key, key), None)


def _host_key(node: int) -> str:
    return f"host{node}"
