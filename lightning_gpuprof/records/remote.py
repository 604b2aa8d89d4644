"""Runs in remote storage, which readers fetch into a local folder and go on fetching as they grow.

Any URL that fsspec can open will do (`s3://`, `gs://`, `sftp://`, `memory://`, ...), with fsspec's
own configuration and credentials. What only grows, records and rollups, is continued by its new
bytes; other files are fetched again when they have changed.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from lightning_gpuprof.config import is_url
from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records import files
from lightning_gpuprof.records.rollup import ROLLUP_SUFFIX
from lightning_gpuprof.records.span import split_span

CACHE_VARIABLE = "LIGHTNING_GPUPROF_CACHE"
"""Names the folder that remote runs are fetched into; by default it is in the user's cache."""
GROWS = (".jsonl", ROLLUP_SUFFIX)
_FETCHED = (*GROWS, ".json", ".json.gz", files.SNAPSHOT_SUFFIX)
"""Records and rollups, traces, what is stored beside them, trials and snapshots of memory."""
_CHANGED = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")
"""What file systems call the version or the time of a file; `created` is all that memory has."""
_IN_RUN = re.compile(r"^(.*)/plugins/gpuprof/rank[0-9]{1,6}\.jsonl$")
_STATE = "fetched.json"
_TAIL_BYTES = 256
"""The last bytes of what was fetched must be the same in the file that grew."""


class RemoteFiles(files.FileSystem):
    """The file operations of readers over fsspec.

    Attributes:
        root: The URL as the paths of `listing` begin.
    """

    def __init__(self, url: str) -> None:
        self._fs, root = _file_system(url)
        self.root = root.rstrip("/")

    @override
    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(path))

    @override
    def listdir(self, path: str) -> list[str]:
        try:
            listed = self._fs.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(str(name).rstrip("/").rpartition("/")[2] for name in listed)

    @override
    def read_bytes(self, path: str, most: int = files.MOST_BYTES) -> bytes:
        if self.size(path) > most:
            raise OSError(f"{path} is longer than {most >> 20} MiB")
        return bytes(self._fs.cat_file(path))

    @override
    def read_range(self, path: str, start: int, length: int) -> bytes:
        return bytes(self._fs.cat_file(path, start=start, end=start + length)) if length else b""

    @override
    def size(self, path: str) -> int:
        return int(self._fs.size(path))

    def listing(self, folder: str) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of every file under a folder, by its path; of a file, itself."""
        self._fs.invalidate_cache()
        listing: Mapping[str, Mapping[str, Any]] = self._fs.find(folder, detail=True)
        return listing

    def fetch(self, path: str, local: str) -> None:
        """Fetch a file as a whole."""
        with files.written_whole(local) as part:
            self._fs.get_file(path, part)


def _file_system(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and its path there; raise `ConfigError` without it."""
    try:
        core = import_module("fsspec.core")
    except ImportError as error:
        raise ConfigError(f"{url} needs fsspec: pip install fsspec") from error
    try:
        file_system, path = core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # its text says what to install
        raise ConfigError(f"{url} cannot be read: {error}") from error
    return file_system, str(path)


def is_served(url: str) -> bool:
    """Return whether fsspec and what it needs for a URL are installed."""
    with suppress(ConfigError):
        _file_system(url)
        return True
    return False


def local_path(path: str) -> str:
    """Return a local path as it is, and for a URL that of the copy of its files; see `fetched`.

    A span of steps behind it remains: `s3://bucket/run@0-4000`.
    """
    if not is_url(path):
        return path
    run, span = split_span(path)
    return fetched(run) if span is None else f"{fetched(run)}@{span}"


def remote_runs(url: str) -> list[str]:
    """Return the URLs of the runs at or under a URL; an empty list if it cannot be listed."""
    try:
        remote = RemoteFiles(url)
        root, listing = remote.root, remote.listing(url)
    except Exception:  # noqa: BLE001 - each storage has errors of its own
        return []
    runs = {
        match[1][len(root) :].lstrip("/") for path in listing if (match := _IN_RUN.search(path))
    }
    return sorted(f"{url.rstrip('/')}/{run}".rstrip("/") for run in runs)


def fetched(url: str, cache: str | None = None) -> str:
    """Fetch what is new under a URL, and return the path of the local copy.

    It holds records, rollups, traces, analyses and memory snapshots. The copy lies in the folder of
    `LIGHTNING_GPUPROF_CACHE`, or in the user's cache, and may be deleted at any time.

    Args:
        url: A run, a folder of runs, or a file.
        cache: Where the copy lies.

    Raises:
        ConfigError: fsspec, or what it needs for this URL, is not installed.
        RecordError: There is nothing under the URL, or it cannot be reached.
    """
    remote, url = RemoteFiles(url), url.rstrip("/")
    root = remote.root
    folder = os.path.join(cache or _cache_folder(), hashlib.sha256(url.encode()).hexdigest()[:16])
    local = os.path.join(folder, os.path.basename(root) or "root")
    try:
        listing = remote.listing(root)
    except Exception as error:
        raise RecordError(f"{url} cannot be listed: {error}") from error
    if not listing:
        raise RecordError(f"{url} holds no file. Pass the URL of a run's log dir, or of a trace.")
    os.makedirs(folder, exist_ok=True)
    copy = _Copy(remote, folder)
    try:
        for path, relative in _wanted(listing, root):
            copy.update(path, os.path.normpath(os.path.join(local, relative)), listing[path])
    except OSError as error:
        raise RecordError(f"{url} cannot be fetched into {folder}: {error}") from error
    finally:
        copy.save()
    copy.drop_others()
    return local


def _wanted(listing: Mapping[str, object], root: str) -> Iterator[tuple[str, str]]:
    """Yield the path of every file to fetch, and where it lies under the root."""
    if root in listing:  # the URL of a file
        yield root, ""
        return
    for path in listing:
        relative = path[len(root) :].lstrip("/")
        # A listing may hold any names: none may lead out of the folder.
        if path.endswith(_FETCHED) and ".." not in relative.split("/"):
            yield path, relative


def _cache_folder() -> str:
    if folder := os.environ.get(CACHE_VARIABLE):
        return folder
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    return os.path.join(cache, "lightning_gpuprof")


class _Copy:
    """The local copy of remote files, and the state in which each was fetched."""

    def __init__(self, remote: RemoteFiles, folder: str) -> None:
        self._remote = remote
        self._state_path = os.path.join(folder, _STATE)
        self._states: dict[str, str] = {}
        with suppress(OSError, msgspec.MsgspecError):
            content = Path(self._state_path).read_bytes()
            self._states = msgspec.json.decode(content, type=dict[str, str])
        self._current: set[str] = set()

    def update(self, path: str, local: str, info: Mapping[str, Any]) -> None:
        """Fetch a file, or what was added to it; nothing if it has not changed."""
        self._current.add(local)
        size = int(info.get("size") or 0)
        changed = next((info[name] for name in _CHANGED if info.get(name)), "")
        state = f"{size} {changed}"
        if self._states.get(local) == state and os.path.exists(local):
            return
        os.makedirs(os.path.dirname(local), exist_ok=True)
        if not (local.endswith(GROWS) and self._continue(path, local, size)):
            self._remote.fetch(path, local)
        self._states[local] = state

    def _continue(self, path: str, local: str, size: int) -> bool:
        """Append what was added to a file; return False if it is another file than before."""
        try:
            have = os.path.getsize(local)
        except OSError:
            return False
        tail = min(have, _TAIL_BYTES)
        if have > size:
            return False
        with open(local, "rb") as file:
            file.seek(have - tail)
            last = file.read()
        new = self._remote.read_range(path, have - tail, size - have + tail)
        if new[:tail] != last:
            return False
        with open(local, "ab") as file:
            if file.tell() != have:  # another process appends to it, too
                return False
            file.write(new[tail:])
        return True

    def drop_others(self) -> None:
        """Delete the copies of files that no longer exist."""
        for local in self._states.keys() - self._current:
            with suppress(OSError):
                os.unlink(local)
            del self._states[local]

    def save(self) -> None:
        """Write down in which state each file was fetched."""
        with suppress(OSError), files.written_whole(self._state_path) as part:
            Path(part).write_bytes(msgspec.json.encode(self._states))
