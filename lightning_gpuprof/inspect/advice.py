"""Advice for lines that make the host wait for the device. Does not import torch."""

from typing import Any

from lightning_gpuprof.records.schema import SyncSite

PAGEABLE_COPY = "pageable copy"
"""What the result of an inspection calls a copy from pageable memory to the device."""
_SCALER_FILE = "precision/amp.py"
"""The file in which Lightning calls the gradient scaler. In manual optimization the user's own code
calls it."""


def advice(site: SyncSite) -> str:
    """Return what to write in the place of a line that makes the host wait.

    The advice depends on the operation and on the owner of the line.
    """
    # Imported here, since the detectors need nothing but PAGEABLE_COPY from this module.
    from lightning_gpuprof.findings.operators import tables

    texts = tables("advice.toml")["waits"]
    operations = site.operation.split(", ")
    if site.owner == "lightning":
        return _advice_for_lightning(site, operations, texts)
    by_owner: str = texts["owner"].get(site.owner, "")
    return by_owner or texts["operation"].get(operations[0], texts["read"])


def _advice_for_lightning(site: SyncSite, operations: list[str], texts: Any) -> str:
    """Return the advice for a line of Lightning's, which only a setting or other values change."""
    if site.file.replace("\\", "/").endswith(_SCALER_FILE):
        return str(texts["scaler"])
    if ".step(" in site.source:
        return str(texts["steps"])
    advised: list[str] = []
    if PAGEABLE_COPY in operations:
        advised.append(texts["number"])
    if operations != [PAGEABLE_COPY]:
        advised.append(texts["owner"]["lightning"])
    return "; ".join(advised)
