"""Reads profilers' SQLite files: tables and columns that may be missing, files that end early."""

import sqlite3
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import quote

from lightning_gpuprof.errors import TraceError

_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged file; SQLite's own message may quote bytes that are no text."""
MAGIC = b"SQLite format 3\x00"
_TEXT = frozenset(
    "value string name text category extdata type model_name product_name vendor_name "
    "KernelName Name".split()
)
"""Columns that hold text; every other one that a reader asks for holds integers. SQLite itself
takes anything in any column, and other tools write numbers as text."""


class Database:
    """A database opened for reading only, without touching the file or its folder."""

    def __init__(self, path: str, warnings: list[str] | None = None) -> None:
        self._path = path
        self._warnings = warnings if warnings is not None else []
        self._connection = sqlite3.connect(f"file:{quote(path)}?immutable=1", uri=True)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # Views of rocpd may call it for what is packed; without it SQLite refuses the whole view.
        self._connection.create_function("lz4_decompress", 1, lambda packed: None)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @cached_property
    def tables(self) -> dict[str, list[str]]:
        """Columns by table or view; tables are created lazily, so any may be missing."""
        try:
            names = self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
        except _ERRORS as error:
            raise TraceError(
                f"{self._path} is an SQLite file that cannot be read ({error}). "
                "It may end early: export it again."
            ) from error
        return {name: self._columns(name) for (name,) in names}

    def has(self, table: str, *columns: str) -> bool:
        """Tell whether a table with these columns exists."""
        return table in self.tables and set(columns) <= set(self.tables[table])

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, text and integers; a column that this version lacks comes as None.

        A file that ends early gives the rows before the damage, and a warning.
        """
        if table not in self.tables:
            return
        present = self.tables[table]
        picked = ", ".join(_cast(c) if c in present else "NULL" for c in columns)
        count = 0
        try:
            for row in self._connection.execute(f'SELECT {picked} FROM "{table}"'):
                count += 1
                yield row
        except _ERRORS as error:
            self._warnings.append(
                f"Table {table} could be read only up to row {count} ({error}): the file is "
                "damaged or ends early."
            )

    def _columns(self, table: str) -> list[str]:
        try:
            found = self._connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        except _ERRORS:
            # A view over a table that is missing: as good as not there.
            return []
        return [row[1] for row in found]


def _cast(column: str) -> str:
    return f'CAST("{column}" AS {"TEXT" if column in _TEXT else "INTEGER"})'


def has_tables(path: str, head: bytes, *any_of: str) -> bool:
    """Tell whether a file is an SQLite database with at least one of these tables or views."""
    if not head.startswith(MAGIC):
        return False
    with Database(path) as database:
        try:
            return any(table in database.tables for table in any_of)
        except TraceError:
            return False
