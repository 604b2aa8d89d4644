"""Reads the tables and texts of a document, for tests."""

from lightning_gpuprof.report.document import Document, Table, Text


def table(document: Document, id: str) -> Table:
    """Return the table with this id."""
    tables = {part.id: part for part in document.parts(Table)}
    return tables[id]


def rows(document: Document, id: str, key: str) -> dict:
    """Return the rows of a table by one of their keys; empty where there is no such table."""
    return {row[key]: row for row in document.rows(id)}


def texts(document: Document, section: str) -> list[str]:
    """Return the sentences of a section; empty where there is no such section."""
    found = document.section(section)
    parts = found.body if found is not None else ()
    return [line for part in parts if isinstance(part, Text) for line in part.lines]
