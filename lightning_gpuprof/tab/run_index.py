"""The runs that TensorBoard was pointed at, by the names that it gives them, and where they lie."""

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from lightning_gpuprof.records.files import LOCAL, MOST_BYTES, FileSystem, find_runs

FRESH_S = 3.0
"""A listing younger than this is reused: TensorBoard asks on every page load, in series."""


def parse_roots(logdir: str, logdir_spec: str) -> list[tuple[str, str]]:
    """Return (name, folder) of each root, as `--logdir` or `--logdir_spec` gave them.

    >>> parse_roots("/logs", "")
    [('', '/logs')]
    >>> parse_roots("", "a:/x,/y,gs://bucket/z")
    [('a', '/x'), ('', '/y'), ('', 'gs://bucket/z')]
    """
    if logdir:
        return [("", os.path.expanduser(logdir))]
    roots = []
    for part in logdir_spec.split(","):
        name, colon, path = part.partition(":")
        # As TensorBoard: a colon names the root, except in "gs://..." and "/a:b".
        if colon and not path.startswith("//") and not part.startswith("/"):
            roots.append((name, os.path.expanduser(path)))
        elif part:
            roots.append(("", os.path.expanduser(part)))
    return roots


class RunIndex:
    """Finds runs with records of ours under TensorBoard's log dirs.

    Local folders are searched. Remote runs are known by the marker tensor in their event files, or
    where there is none, by their record files if fsspec serves the URL.

    Args:
        roots: (name, folder) of each root.
        marked_runs: Returns the names of runs that carry our marker tensor.
        clock: Seconds, monotonic; tests pass a fake.
    """

    def __init__(
        self,
        roots: list[tuple[str, str]],
        marked_runs: Callable[[], list[str]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.roots = roots
        self._marked_runs = marked_runs
        self._clock = clock
        self._lock = threading.Lock()
        self.latest: dict[str, str] = {}
        """What the last search returned: the log dir of every run by its name."""
        self._found_at: float | None = None
        self._search: threading.Thread | None = None

    def missing(self) -> list[str]:
        """Return the local folders among the roots that do not exist: mistyped, or not yet made."""
        local = [path for _, path in self.roots if "://" not in path]
        return [path for path in local if not os.path.isdir(path)]

    def runs(self) -> dict[str, str]:
        """Return the log dir of each run by its name, searching again where that is stale."""
        with self._lock:
            if self._found_at is None or self._clock() - self._found_at > FRESH_S:
                self.latest = dict(sorted(self._find().items()))
                self._found_at = self._clock()
            return self.latest

    def any_known(self) -> bool:
        """Whether a search has returned a run; never waits for a search, but starts one."""
        if self.latest:
            return True
        if self._search is None or not self._search.is_alive():
            self._search = threading.Thread(target=self.runs, name="gpuprof-runs", daemon=True)
            self._search.start()
            self._search.join(timeout=0.05)
        return bool(self.latest)

    def _find(self) -> dict[str, str]:
        folders: dict[str, str] = {}
        for name, root in self.roots:
            if "://" in root:
                marked = {run: _under(run, name, root) for run in self._marked_runs()}
                remote = {run: path for run, path in marked.items() if path}
                folders |= remote or _listed(name, root)
            else:
                for folder in find_runs(root, traces=True):
                    folders[_run_name(name, root, folder)] = folder
        return folders


def _run_name(name: str, root: str, folder: str) -> str:
    inside = os.path.relpath(folder, root)
    if not name:
        return inside
    return name if inside == "." else f"{name}/{inside}"


def _listed(name: str, root: str) -> dict[str, str]:
    """Return the runs that a URL lists, by their names."""
    from lightning_gpuprof.records.remote import remote_runs  # TensorBoard's start needs none of it

    inside = {run: run[len(root.rstrip("/")) :].strip("/") for run in remote_runs(root)}
    return {"/".join(filter(None, (name, part))) or ".": run for run, part in inside.items()}


def _under(run: str, name: str, root: str) -> str | None:
    if not name:
        return root if run == "." else f"{root.rstrip('/')}/{run}"
    if run == name:
        return root
    prefix = name + "/"
    return f"{root.rstrip('/')}/{run[len(prefix) :]}" if run.startswith(prefix) else None


def marked_runs(data_provider: Any, plugin_name: str) -> list[str]:
    """Return the runs whose event files hold our marker, as far as TensorBoard has read them."""
    if data_provider is None:
        return []
    # The local server has one experiment, whose id is the empty string.
    listed = data_provider.list_tensors(experiment_id="", plugin_name=plugin_name)
    return sorted(listed or {})


class GFiles(FileSystem):
    """The same over `tensorboard.compat.tf.io.gfile`: whatever TensorBoard can read."""

    def __init__(self) -> None:
        # Imported here: with TensorFlow installed this import takes seconds.
        from tensorboard.compat import tf

        self._gfile = tf.io.gfile

    @override
    def exists(self, path: str) -> bool:
        return bool(self._gfile.exists(path))

    @override
    def listdir(self, path: str) -> list[str]:
        if not self._gfile.isdir(path):
            return []
        return sorted(name.rstrip("/") for name in self._gfile.listdir(path))

    @override
    def read_bytes(self, path: str, most: int = MOST_BYTES) -> bytes:
        if self.size(path) > most:
            raise OSError(errno.EFBIG, f"longer than {most >> 20} MiB", path)
        with self._gfile.GFile(path, "rb") as file:
            return bytes(file.read())

    @override
    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`; TensorBoard's stand-in cannot seek."""
        return self.read_bytes(path)[start : start + length]

    @override
    def size(self, path: str) -> int:
        return int(self._gfile.stat(path).length)


def file_system_for(path: str) -> FileSystem:
    """Return the local file system; for a path with a scheme fsspec, or else TensorBoard's.

    >>> file_system_for("/tmp/logs") is LOCAL
    True
    """
    if "://" not in path:
        return LOCAL
    from lightning_gpuprof.records.remote import RemoteFiles, is_served

    return RemoteFiles(path) if is_served(path) else GFiles()
