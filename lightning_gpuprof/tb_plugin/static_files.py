"""The tab's own modules, and the Plotly bundle out of the plotly package."""

import gzip
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lightning_gpuprof.views.html.web_assets import STATIC, plotly_path

MIME_TYPES = {
    # Spelled out: on some machines `mimetypes` calls .js text/plain, which no browser imports.
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


def read_static(name: str) -> tuple[bytes, str] | None:
    """Return a static file's content and MIME type, or None where there is no such file.

    >>> read_static("../plugin.py") is None
    True
    """
    return read_inside(STATIC, name, MIME_TYPES)


def read_inside(folder: Path, name: str, mime_types: Mapping[str, str]) -> tuple[bytes, str] | None:
    """Return a file's content and MIME type; None of one outside the folder, or of no such type."""
    path = (folder / name).resolve()
    inside = path.is_relative_to(folder.resolve())
    if not inside or path.suffix not in mime_types or not path.is_file():
        return None
    return path.read_bytes(), mime_types[path.suffix]


@lru_cache(maxsize=1)
def plotly_gzip() -> bytes | None:
    """Return the Plotly bundle compressed once for the life of the process."""
    path = plotly_path()
    return gzip.compress(path.read_bytes(), compresslevel=6, mtime=0) if path else None
