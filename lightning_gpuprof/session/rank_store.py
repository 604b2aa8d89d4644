"""What ranks tell one another in a fit: through the process group's store, with no collective."""

import os
import socket
from datetime import timedelta
from functools import partial
from typing import Any

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.adapters.process_group import fit_store
from lightning_gpuprof.session.guard import attempt

WAIT = timedelta(seconds=5)
"""For rank 0's log dir; the process group's own timeout is of minutes."""
_SESSION = "session"


class RankStore:
    """This fit's keys in the process group's store; what fails counts as not told.

    Rank 0 tells its log dir, for which others wait `WAIT` at most. One rank of each further machine
    tells that machine's name, for which nobody waits: rank 0 takes the names that are there when
    its record file begins.

    Args:
        store: As `fit_store` returns it; None with one rank.
        nodes: Number of machines.
    """

    def __init__(self, store: Any = None, nodes: int = 1) -> None:
        self._store = store
        self._further = [f"host{node}" for node in range(1, nodes)]

    @classmethod
    def of(cls, trainer: Trainer) -> "RankStore":
        """Return a Trainer's store, to which this machine's name has been told where need be."""
        if trainer.world_size < 2:
            return cls()
        found = cls(attempt(fit_store, None), trainer.num_nodes)
        if trainer.local_rank == 0 and not trainer.is_global_zero:
            found.tell_host(trainer.node_rank, socket.gethostname())
        return found

    def tell_host(self, node: int, name: str) -> None:
        """Tell rank 0 the name of a machine."""
        self._tell(f"host{node}", name)

    def hosts(self) -> list[str]:
        """Return the names that have been told, by node, and "" for others; [] with one machine."""
        found = [attempt(partial(self._read_now, key), "") for key in self._further]
        return [socket.gethostname(), *found] if found else []

    def tell_session(self, folder: str, number: int) -> None:
        """Tell all others the log dir and the session's number."""
        self._tell(_SESSION, f"{number} {folder}")

    def session(self) -> tuple[str, int] | None:
        """Return the log dir and the session's number that rank 0 has told; None without."""
        return attempt(self._read_session, None)

    def close(self, *, delete: bool) -> None:
        """Let go of the store; rank 0 deletes the fit's keys, which by now were read."""
        store, self._store = self._store, None
        for key in (_SESSION, *self._further) if delete and store is not None else ():
            attempt(partial(store.delete_key, key), None)

    def _tell(self, key: str, value: str) -> None:
        attempt(lambda: self._store.set(key, os.fsencode(value)), None)

    def _read_session(self) -> tuple[str, int]:
        self._store.wait([_SESSION], WAIT)
        number, _, folder = self._read_now(_SESSION).partition(" ")
        return folder, int(number)

    def _read_now(self, key: str) -> str:
        # A `get` of what is not there would wait for as long as the process group may.
        return os.fsdecode(self._store.get(key)) if self._store.check([key]) else ""
