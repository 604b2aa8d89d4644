"""Places in the program as they are written down."""

import linecache
import re
import sys

from lightning_gpuprof.probes.stacks.stack_lines import Place, package_of, shown_path
from lightning_gpuprof.records.module_calls import CallPlace


def shown(place: Place) -> CallPlace:
    """Return a place with its path as a user would write it, and its text."""
    file, line, function = place
    return CallPlace(shown_path(file), line, function, linecache.getline(file, line).strip())


def own_line_like(pattern: str) -> CallPlace | None:
    """Return the first line of the program's own files that matches a pattern."""
    switch = re.compile(pattern)
    for file in _own_files():
        for number, text in enumerate(linecache.getlines(file), 1):
            source = text.strip()
            if switch.search(source) and not source.startswith("#"):
                return CallPlace(shown_path(file), number, "", source)
    return None


def _own_files() -> list[str]:
    """Return the program's loaded files, the script first."""
    main = sys.modules.get("__main__")
    modules = [main, *(one for name, one in list(sys.modules.items()) if name != "__main__")]
    files = (getattr(one, "__file__", None) for one in modules)
    python = (file for file in files if isinstance(file, str) and file.endswith(".py"))
    return list(dict.fromkeys(file for file in python if package_of(file) == ""))
