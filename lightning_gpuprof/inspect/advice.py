"""Advice for a line that makes the host wait, by its operation and its owner. Without torch."""

from typing import Any

from lightning_gpuprof.records.schema import SyncSite

PAGEABLE_COPY = "pageable copy"
"""The operation's name in the rows of an inspection."""
_SCALER_FILE = "precision/amp.py"
"""Where Lightning calls the scaler; in manual optimization a line of the program's own does."""


def advice(site: SyncSite) -> str:
    """Return the replacement for a line that makes the host wait."""
    # Imported here: detectors take the name above alone.
    from lightning_gpuprof.findings.operators import tables

    texts = tables("advice.toml")["waits"]
    operations = site.operation.split(", ")
    if site.owner == "lightning":
        return _lightnings(site, operations, texts)
    by_owner: str = texts["owner"].get(site.owner, "")
    return by_owner or texts["operation"].get(operations[0], texts["read"])


def _lightnings(site: SyncSite, operations: list[str], texts: Any) -> str:
    if site.file.replace("\\", "/").endswith(_SCALER_FILE):
        return str(texts["scaler"])
    if ".step(" in site.source:
        return str(texts["steps"])
    copied = PAGEABLE_COPY in operations
    read = not copied or len(operations) > 1
    return "; ".join([texts["number"]] * copied + [texts["owner"]["lightning"]] * read)
