"""Reads the ranks of a run by their rollups, each as the steps that ranks are compared by."""

import os
from collections.abc import Mapping

from lightning_gpuprof.records.files import FileSystem
from lightning_gpuprof.records.rolled import RolledFile, RolledSession
from lightning_gpuprof.records.session import RankRecords, Session

COMPARED_CELLS = 1_000_000
"""Limit of the number of ranks times steps that are compared; the last steps are chosen."""
_MORE = 1.25
"""So many times the steps are read, because a step that is not steady on some rank is left out."""


class RolledRun:
    """The record files of a run's ranks, read by their rollups.

    Args:
        fs: Where they are.
        until: The last step by which ranks are compared; by default the last that all have.
    """

    def __init__(self, fs: FileSystem, until: int | None = None) -> None:
        self._fs, self._until = fs, until
        self._files: dict[int, tuple[str, RolledFile]] = {}
        self._states: dict[int, object] = {}
        self._failed: dict[int, str] = {}

    @property
    def num_bytes(self) -> int:
        """About how much memory the records take."""
        return sum(file.num_bytes for _, file in list(self._files.values()))

    def read(
        self, paths: Mapping[int, str], states: Mapping[int, object]
    ) -> dict[int, RankRecords]:
        """Return every rank's records; only files whose state has changed are read on."""
        for rank in self._files.keys() - paths.keys():
            del self._files[rank]
        for rank, path in paths.items():
            name = os.path.basename(path)
            _, file = self._files.setdefault(rank, (path, RolledFile(path, name, self._fs)))
            if states[rank] is None or self._states.get(rank) != states[rank]:
                self._states[rank] = states[rank]
                self._failed.pop(rank, None)
                try:
                    file.read(self._fs.size(path))
                except OSError as error:
                    self._failed[rank] = f"{name} cannot be read: {error.strerror or error}."
                    self._states[rank] = None
        stretches = self._compared()
        return {rank: self._records(rank, path, stretches) for rank, path in paths.items()}

    def _compared(self) -> dict[int, tuple[int, int]]:
        """Return the first and last step by which ranks are compared, by session."""
        by_session: dict[int, list[RolledSession]] = {}
        for rank, (_, file) in self._files.items():
            for number, session in file.stepped().items() if rank not in self._failed else ():
                by_session.setdefault(number, []).append(session)
        stretches = {}
        for number, sessions in by_session.items():
            last = min(int(session.rollup.last_step[-1]) for session in sessions)
            last = last if self._until is None else min(last, self._until)
            count = int(_MORE * COMPARED_CELLS) // len(sessions)
            stretches[number] = min(session.from_step(last, count) for session in sessions), last
        return stretches

    def _records(
        self, rank: int, path: str, stretches: Mapping[int, tuple[int, int]]
    ) -> RankRecords:
        if rank in self._failed:
            return RankRecords(rank, (), (self._failed[rank],))
        _, file = self._files[rank]
        sessions = tuple(
            Session(
                session.start,
                session.records(path, self._fs),
                session.columns(path, self._fs, *stretches.get(session.start.session, (0, -1))),
                rollup=session.rollup,
            )
            for session in file.sessions
        )
        return RankRecords(rank, sessions, file.warnings(), file.newer)
