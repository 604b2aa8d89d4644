"""Places in the program as they are written down."""

import linecache
import os
import re
import sys
import sysconfig
from functools import lru_cache, partial
from types import FrameType

import torch

import lightning_gpuprof
from lightning_gpuprof.records.lines import CodePlace
from lightning_gpuprof.runtime.guard import attempt

Place = tuple[str, int, str]
"""File, line and function."""
USER, GPUPROF = "", "lightning_gpuprof"
"""Packages of the user's own files and of this package's."""
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
_OWN = os.path.dirname(os.path.abspath(lightning_gpuprof.__file__))
_PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_TYPED = ("<stdin>", "<ipython-input-", "<python-input-")
"""How the names of code from a shell, a notebook's cell or standard input begin."""
_GENERATED = "torchinductor_"
"""How the name of the folder begins into which torch.compile writes modules."""


def shown(place: Place) -> CodePlace:
    """Return a place with its path as a user would write it, and its text."""
    file, line, function = place
    return CodePlace(shown_path(file), line, function, linecache.getline(file, line).strip())


def own_line_like(pattern: str) -> CodePlace | None:
    """Return the first line of the program's own files that matches a pattern."""
    switch = re.compile(pattern)
    for file in _own_files():
        for number, text in enumerate(linecache.getlines(file), 1):
            source = text.strip()
            if switch.search(source) and not source.startswith("#"):
                return CodePlace(shown_path(file), number, "", source)
    return None


def _own_files() -> list[str]:
    """Return the program's loaded files, the script first."""
    main = sys.modules.get("__main__")
    others = (module for name, module in list(sys.modules.items()) if name != "__main__")
    files = (getattr(module, "__file__", None) for module in (main, *others))
    python = (file for file in files if isinstance(file, str) and file.endswith(".py"))
    return list(dict.fromkeys(file for file in python if package_of(file) == ""))


def shown_path(file: str) -> str:
    """Return a path as a user in the training's folder would write it; a cell as `In[3]`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)
    if named:
        return str(named[1])
    path, here = _absolute(file), attempt(os.getcwd, None)
    return os.path.relpath(path, here) if here and path.startswith(here + os.sep) else path


def _absolute(file: str) -> str:
    """Return an absolute path, or the path as it is where the working directory is gone."""
    return attempt(partial(os.path.abspath, file), file)


@lru_cache(maxsize=4096)
def package_of(filename: str) -> str:
    """Return the package that a file is part of: empty for the user's own, `python` for Python's.

    Modules that torch.compile writes are torch's: nobody can change a line of them.

    >>> package_of(os.__file__), package_of(torch.__file__), package_of("train.py")
    ('python', 'torch', '')
    """
    if filename.startswith("<"):  # typed in, or frozen or generated: no line to show
        return USER if filename.startswith(_TYPED) else "python"
    path = _absolute(filename)
    if path.startswith(_OWN + os.sep):
        return GPUPROF
    for folder in (_SITE, "site-packages", "dist-packages"):
        _, separator, rest = path.rpartition(folder + os.sep)
        if separator:
            return rest.split(os.sep)[0].removesuffix(".py")
    if _is_generated(path):
        return "torch"
    return "python" if any(path.startswith(root + os.sep) for root in _PYTHON) else USER


def of_multiprocessing(file: str) -> bool:
    """Tell whether a file is one of Python's `multiprocessing`."""
    return file.split(os.sep)[-2:-1] == ["multiprocessing"] and package_of(file) == "python"


def package_in(frame: FrameType) -> str:
    """Return the package whose code a frame runs, by its module where a package wrote that."""
    package = package_of(frame.f_code.co_filename)
    root, dot, _ = str(frame.f_globals.get("__name__", "")).partition(".")
    return root if package == USER and dot and is_installed(root) else package


@lru_cache(maxsize=256)
def is_installed(package: str) -> bool:
    """Tell whether a package that was imported is installed: none of the user's own files."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and package_of(file) == package


def _is_generated(path: str) -> bool:
    """Tell whether torch.compile wrote a file; torch puts a folder of its own into the variable."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder and path.startswith(_absolute(folder) + os.sep):
        return True
    return f"{os.sep}{_GENERATED}" in path
