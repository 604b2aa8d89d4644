"""Looks for a request for a capture in the run's folder, with one `stat` per look."""

import os
from collections.abc import Callable

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.capture_files import CaptureRequest, read_file
from lightning_gpuprof.records.files import file_state


class RequestWatch:
    """Notices a new request, or a new plan of rank 0.

    Args:
        path: The file.
        ignore_existing: Whether a file that exists already is not new.
        stat: Returns the status of a path; tests pass a fake.
    """

    def __init__(
        self,
        path: str,
        *,
        ignore_existing: bool = False,
        stat: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        self.path = path
        self._stat = stat
        self._state = file_state(path, stat) if ignore_existing else None

    def new(self) -> CaptureRequest | None:
        """Return the request if the file is another one than at the last look, else None.

        A file that cannot be read, or that holds something else, counts as none.
        """
        before, self._state = self._state, file_state(self.path, self._stat)
        if self._state is None or self._state == before:
            return None
        try:
            return read_file(self.path, CaptureRequest)
        except (OSError, UnreadableError):
            return None
