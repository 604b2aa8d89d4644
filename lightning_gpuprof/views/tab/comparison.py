"""The comparison of two long runs, which is made outside of the request that asks for it."""

from pathlib import Path

import msgspec

from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.views.documents.compare import TOLERANCE, compared
from lightning_gpuprof.views.documents.report import load_report


def write_comparison(base: str, new: str, path: str) -> None:
    """Write what `compare --json` prints of two log dirs."""
    found = compared(load_report(base), load_report(new), TOLERANCE)
    with written_whole(path) as part:
        Path(part).write_bytes(msgspec.json.encode(found.payload()))
