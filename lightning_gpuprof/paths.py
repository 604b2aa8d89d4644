"""Shortens paths of code for people. Records and JSON have them as they were recorded."""

import os
import re
from pathlib import PurePath

_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\](.+)")
_STANDARD = re.compile(r".*[/\\]lib[/\\]python3[\d.]*t?[/\\](.+)")


def short_path(file: str) -> str:
    """Return a path as short as it can be said without doubt.

    A module of a package begins with the package, one of the standard library with its folder
    there. Another file is relative to the working folder or to the home, if that is shorter. What
    is no absolute path stays as it is.

    >>> short_path("/opt/venv/lib/python3.11/site-packages/torch/nn/module.py"), short_path("a.py")
    ('torch/nn/module.py', 'a.py')
    >>> short_path("/usr/lib/python3.11/json/decoder.py")
    'json/decoder.py'
    """
    if not os.path.isabs(file):
        return file
    for packages in (_PACKAGES, _STANDARD):
        if match := packages.fullmatch(file):
            return match[1]
    return min((file, *_relative(file)), key=len)


def _relative(file: str) -> list[str]:
    """Return a path relative to the home and to the working folder, where there are such."""
    home = os.path.expanduser("~")
    paths = []
    if len(home) > 1 and PurePath(file).is_relative_to(home):
        paths.append(os.path.join("~", os.path.relpath(file, home)))
    try:
        paths.append(os.path.relpath(file))
    except (OSError, ValueError):  # the working folder was deleted, or is on another drive
        pass
    return paths
