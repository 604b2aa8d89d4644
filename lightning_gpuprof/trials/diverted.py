"""Keeps the program from writing files of the user's: in a child of `try`, and nowhere else."""

import builtins
import io
import os
import shutil
from typing import Any

import torch

from lightning_gpuprof.runtime.wrap import Wrappers

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Diverted:
    """What the program writes outside of a folder goes into that folder, and is read from there.

    It sees what Python opens, makes, moves and removes, and `torch.save`. Caches below `~/.cache`
    are no files of the user's. Libraries that open files by themselves (HDF5, SQLite) are not seen.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        caches = os.path.realpath(os.path.expanduser("~/.cache"))
        self._free = ("/dev", "/proc", self._folder, caches)
        self._any = False

    def install(self, wrappers: Wrappers) -> None:
        """Divert this process."""
        wrappers.call_instead(builtins, "open", self._open)
        wrappers.call_instead(io, "open", self._open)
        wrappers.call_instead(os, "open", self._open_low)
        wrappers.call_instead(torch, "save", self._save)
        for name in ("mkdir", "remove", "unlink", "rmdir", "replace", "rename"):
            wrappers.call_instead(os, name, self._change)
        wrappers.call_instead(shutil, "rmtree", self._change)

    def _to_write(self, path: Any, *, keep: bool = False, make: bool = True) -> Any:
        """Return the path to write to; with `keep`, what the file holds is there."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return path
        real = os.path.realpath(os.fsdecode(path))
        if any(real == one or real.startswith(one + os.sep) for one in self._free):
            return path
        place = os.path.join(self._folder, "diverted", real.lstrip(os.sep))
        if make:
            self._any = True
            os.makedirs(os.path.dirname(place), exist_ok=True)
        if keep and os.path.isfile(path) and not os.path.exists(place):
            shutil.copyfile(path, place)
        return place

    def _to_read(self, path: Any) -> Any:
        place = self._to_write(path, make=False) if self._any else path  # most pay nothing
        return place if place is not path and os.path.exists(place) else path

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        writes = set(mode) & set("wax+")
        to = self._to_write(file, keep="w" not in mode) if writes else self._to_read(file)
        return original(to, mode, *args, **more)

    def _open_low(self, original: Any, path: Any, flags: int, *args: Any, **more: Any) -> Any:
        if more.get("dir_fd") is None:
            path = self._to_write(path, keep=True) if flags & _WRITING else self._to_read(path)
        return original(path, flags, *args, **more)

    def _save(self, original: Any, obj: Any, f: Any, *args: Any, **more: Any) -> Any:
        return original(obj, self._to_write(f), *args, **more)

    def _change(self, original: Any, path: Any, *rest: Any, **more: Any) -> Any:
        if more.get("dir_fd") is not None:
            return original(path, *rest, **more)
        makes = original.__name__ == "mkdir"
        place = self._to_write(path, make=makes)
        if place is not path and not makes and not os.path.lexists(place):
            return None  # the user's own stays where it is
        rest = tuple(one if isinstance(one, int) else self._to_write(one) for one in rest)
        return original(place, *rest, **more)
