"""Keeps the program from changing the user's files. Used in the children of `try` only."""

import builtins
import io
import os
import shutil
from typing import Any

import torch

from lightning_gpuprof.runtime.wrap import Wrappers

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class DivertedWrites:
    """Redirects what the program writes to a folder, and lets it read such files from there.

    That covers the files that Python opens, makes, moves and removes, and `torch.save`. Libraries
    that open files by themselves (HDF5, SQLite) are not covered. Files inside the folder, devices
    and caches below `~/.cache` are written as usual.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        caches = os.path.realpath(os.path.expanduser("~/.cache"))
        self._not_diverted = ("/dev", "/proc", self._folder, caches)
        self._any_diverted = False

    def install(self, wrappers: Wrappers) -> None:
        """Replace the functions of this process that write files."""
        wrappers.call_instead(builtins, "open", self._open)
        wrappers.call_instead(io, "open", self._open)
        wrappers.call_instead(os, "open", self._open_descriptor)
        wrappers.call_instead(torch, "save", self._save)
        for name in ("mkdir", "remove", "unlink", "rmdir", "replace", "rename"):
            wrappers.call_instead(os, name, self._change)
        wrappers.call_instead(shutil, "rmtree", self._change)

    def _path_to_write(self, path: Any, *, copy: bool = False, make_folder: bool = True) -> Any:
        """Return the path to write to. With `copy`, the file there gets the original's content."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return path
        real = os.path.realpath(os.fsdecode(path))
        if any(real == root or real.startswith(root + os.sep) for root in self._not_diverted):
            return path
        diverted = os.path.join(self._folder, "diverted", real.lstrip(os.sep))
        if make_folder:
            self._any_diverted = True
            os.makedirs(os.path.dirname(diverted), exist_ok=True)
        if copy and os.path.isfile(path) and not os.path.exists(diverted):
            shutil.copyfile(path, diverted)
        return diverted

    def _path_to_read(self, path: Any) -> Any:
        if not self._any_diverted:
            return path  # most programs only read, which must stay fast
        diverted = self._path_to_write(path, make_folder=False)
        return diverted if diverted is not path and os.path.exists(diverted) else path

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) & set("wax+"):
            path = self._path_to_write(file, copy="w" not in mode)
        else:
            path = self._path_to_read(file)
        return original(path, mode, *args, **options)

    def _open_descriptor(
        self, original: Any, path: Any, flags: int, *args: Any, **options: Any
    ) -> Any:
        if options.get("dir_fd") is None:
            if flags & _WRITING:
                path = self._path_to_write(path, copy=True)
            else:
                path = self._path_to_read(path)
        return original(path, flags, *args, **options)

    def _save(self, original: Any, obj: Any, f: Any, *args: Any, **options: Any) -> Any:
        return original(obj, self._path_to_write(f), *args, **options)

    def _change(self, original: Any, path: Any, *args: Any, **options: Any) -> Any:
        """Make, move or remove a diverted file or folder; leave the user's own as it is."""
        if options.get("dir_fd") is not None:
            return original(path, *args, **options)
        makes_folder = original.__name__ == "mkdir"
        diverted = self._path_to_write(path, make_folder=makes_folder)
        if diverted is not path and not makes_folder and not os.path.lexists(diverted):
            return None
        # os.mkdir takes a number (its mode) where the others take a second path.
        args = tuple(arg if isinstance(arg, int) else self._path_to_write(arg) for arg in args)
        return original(diverted, *args, **options)
