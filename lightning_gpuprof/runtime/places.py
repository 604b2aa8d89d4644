"""Files and lines of the program: to which package they belong, and how they are shown."""

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
"""What `package_of` returns for the user's own files, and for those of this package."""
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
_OWN = os.path.dirname(os.path.abspath(lightning_gpuprof.__file__))
_PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INTERACTIVE = ("<stdin>", "<ipython-input-", "<python-input-")
"""Prefixes of the file names of code from a shell, a notebook's cell or standard input."""
_GENERATED = "torchinductor_"
"""Prefix of the name of the folder into which torch.compile writes modules."""


def shown(place: Place) -> CodePlace:
    """Return a place with the line's text, and with its path as a user would write it."""
    file, line, function = place
    return CodePlace(shown_path(file), line, function, linecache.getline(file, line).strip())


def own_line_like(pattern: str) -> CodePlace | None:
    """Return the first line of the program's own files that matches a pattern."""
    expression = re.compile(pattern)
    for file in _own_files():
        for number, text in enumerate(linecache.getlines(file), 1):
            source = text.strip()
            if expression.search(source) and not source.startswith("#"):
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
    """Return a path relative to the working directory if it is inside; a cell as `In[3]`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)(file)
    if named:
        return str(named[1])
    path, here = _absolute(file), attempt(os.getcwd, None)
    return os.path.relpath(path, here) if here and path.startswith(here + os.sep) else path


def _absolute(file: str) -> str:
    """Return an absolute path, or the unchanged path if the working directory was deleted."""
    return attempt(partial(os.path.abspath, file), file)


@lru_cache(maxsize=4096)
def package_of(filename: str) -> str:
    """Return the package that a file belongs to.

    The result is `USER`, an empty string, for the user's own files, and `python` for the standard
    library. Modules that torch.compile has generated count as torch's, since the user cannot change
    their lines.

    >>> package_of(os.__file__), package_of(torch.__file__), package_of("train.py")
    ('python', 'torch', '')
    """
    if filename.startswith("<"):  # interactive code, or frozen or generated code without a file
        return USER if filename.startswith(_INTERACTIVE) else "python"
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


def is_in_multiprocessing(file: str) -> bool:
    """Return whether a file belongs to the standard library's `multiprocessing`."""
    return file.split(os.sep)[-2:-1] == ["multiprocessing"] and package_of(file) == "python"


def package_in(frame: FrameType) -> str:
    """Return the package whose code a frame runs.

    Code that a package has generated may name a file outside the package. Then the frame's module
    decides.
    """
    package = package_of(frame.f_code.co_filename)
    root, dot, _ = str(frame.f_globals.get("__name__", "")).partition(".")
    return root if package == USER and dot and is_installed(root) else package


@lru_cache(maxsize=256)
def is_installed(package: str) -> bool:
    """Return whether an imported package is installed, and not one of the user's own modules."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and package_of(file) == package


def _is_generated(path: str) -> bool:
    """Return whether torch.compile has generated a file.

    Torch sets the environment variable to the folder of its generated files.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if folder and path.startswith(_absolute(folder) + os.sep):
        return True
    return f"{os.sep}{_GENERATED}" in path
