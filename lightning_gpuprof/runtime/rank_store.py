"""What ranks tell one another in a fit: through the process group's store, with no collective."""

import os
import socket
from datetime import timedelta
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.adapters.process_group import fit_store
from lightning_gpuprof.runtime.guard import attempt

SESSION = "session"
WAIT = timedelta(seconds=5)
"""For rank 0's log dir; the process group's own timeout is of minutes."""


class RankStore:
    """This fit's keys in the process group's store; what fails counts as not told.

    Rank 0 tells its log dir, for which others wait `WAIT` at most. One rank of each further machine
    tells that machine's name, for which nobody waits: rank 0 takes the names that are there when
    its record file begins. Without a store nothing is told.
    """

    def __init__(self, store: Any = None, nodes: int = 1) -> None:
        self._store = store
        self._further = [f"host{node}" for node in range(1, nodes)]

    @classmethod
    def of(cls, trainer: Trainer) -> "RankStore":
        """Return a Trainer's store, to which this machine's name has been told where need be."""
        store = attempt(fit_store, None) if trainer.world_size > 1 else None
        found = cls(store, trainer.num_nodes)
        if trainer.local_rank == 0 and not trainer.is_global_zero:
            found.tell(f"host{trainer.node_rank}", socket.gethostname())
        return found

    def tell(self, key: str, value: str) -> None:
        """Tell other ranks a value."""
        attempt(lambda: self._store.set(key, os.fsencode(value)), None)

    def told(self, key: str, *, wait: timedelta | None = None) -> str:
        """Return what was told under a key, "" for nothing."""
        if wait is not None:
            attempt(lambda: self._store.wait([key], wait), None)
        # A `get` of what is not there would wait for as long as the process group may.
        there = attempt(lambda: self._store.check([key]), False)
        return attempt(lambda: os.fsdecode(self._store.get(key)), "") if there else ""

    def hosts(self) -> list[str]:
        """Return the names of machines by node, "" for those not told; [] with one machine."""
        names = [self.told(key) for key in self._further]
        return [socket.gethostname(), *names] if names else []

    def close(self, *, delete: bool) -> None:
        """Let go of the store; rank 0 deletes the fit's keys, which by now were read."""
        store, self._store = self._store, None
        for key in (SESSION, *self._further) if delete and store is not None else ():
            attempt(partial(store.delete_key, key), None)
