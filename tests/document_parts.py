"""Reads parts of documents that came as JSON, as tests of routes and pages do."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lightning_gpuprof.report.document import Document, Section, Table, Text


def read_document(answer: Mapping[str, Any]) -> Document:
    """Return the document that a route answered."""
    return msgspec.convert(answer, Document)


def read_sections(answer: Iterable[Any]) -> tuple[Section, ...]:
    """Return the sections of a payload that came as JSON."""
    return msgspec.convert(list(answer), tuple[Section, ...])


def table_in(sections: Iterable[Section], id: str) -> Table:
    """Return the table of that id; it must be there."""
    parts = (part for section in sections for part in section.body)
    return next(part for part in parts if isinstance(part, Table) and part.id == id)


def lines_in(sections: Iterable[Section]) -> list[str]:
    """Return all sentences of the sections, with their notes."""
    texts = (part for section in sections for part in section.body if isinstance(part, Text))
    notes = [section.note for section in sections if section.note]
    return [line for text in texts for line in text.lines] + notes
