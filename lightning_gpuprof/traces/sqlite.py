"""Reads profilers' SQLite files: tables and columns that may be missing, files that end early."""

import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import quote

from lightning_gpuprof.errors import TraceError

_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged file; SQLite's own message may quote bytes that are no text."""
MAGIC = b"SQLite format 3\x00"
_VERSION = re.compile(r"_V\d+$")
_TEXT = frozenset(
    "value string name text category extdata type model_name product_name vendor_name "
    "KernelName Name metricName".split()
)
"""Columns that hold text; every other one that a reader asks for holds integers. SQLite itself
takes anything in any column, and other tools write numbers as text."""
_ROWS, _ROWS_PER_BYTE = 1_000, 0.25
"""The most rows of a query: a number, and more per byte of the file, which a row takes some of."""
_INSTRUCTIONS_PER_CHECK = 100_000
"""How many instructions SQLite's virtual machine runs between two checks of a query's length."""
_CHECKS, _CHECKS_PER_MIB = 100, 1_000
"""The checks after which a query is ended: so many, and so many more for each MiB of the file."""
_LONGEST_TEXT = 1 << 24
_FUNCTIONS = frozenset(
    "lz4_decompress json_extract -> ->> coalesce ifnull nullif iif count sum total min max avg abs "
    "round length lower upper trim substr substring".split()
)
"""Functions that profilers' views may call; none returns much more than it is given."""
_PLAIN = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_TRANSACTION)
)


def _allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow reading and the `_FUNCTIONS` only; no other function, and no recursion."""
    called = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS
    return sqlite3.SQLITE_OK if called or action in _PLAIN else sqlite3.SQLITE_DENY


class Database:
    """A database opened for reading only, without touching the file or its folder.

    Views are read too, since those of rocpd are the same in all its versions. A view can ask for
    any amount of work, so the size of the file limits the rows and the instructions of a query.
    """

    def __init__(self, path: str, warnings: list[str] | None = None) -> None:
        self._path = path
        self._warnings = warnings if warnings is not None else []
        size = os.path.getsize(path)
        self._most_rows = _ROWS + int(_ROWS_PER_BYTE * size)
        self._most_checks = _CHECKS + _CHECKS_PER_MIB * size // 2**20
        self._checks = 0
        self._connection = sqlite3.connect(f"file:{quote(path)}?immutable=1", uri=True)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # Views of rocpd call it for packed text; without it SQLite refuses the whole view.
        self._connection.create_function("lz4_decompress", 1, lambda packed: None)
        self._connection.set_authorizer(_allowed)
        self._connection.set_progress_handler(self._takes_too_long, _INSTRUCTIONS_PER_CHECK)
        if sys.version_info >= (3, 11):
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)

    def _takes_too_long(self) -> bool:
        self._checks += 1
        return self._checks > self._most_checks

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

    def named(self, table: str) -> str | None:
        """Return a table's name in this file, which may end in a version; None if there is none."""
        versions = (name for name in self.tables if _VERSION.sub("", name) == table)
        return table if table in self.tables else next(versions, None)

    def has(self, table: str, *columns: str) -> bool:
        """Return whether a table with these columns exists."""
        name = self.named(table)
        return name is not None and set(columns) <= set(self.tables[name])

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, text and integers; a column that this version lacks comes as None.

        A file that ends early gives the rows before the damage, and a warning.
        """
        name = self.named(table)
        if name is None:
            return
        present = self.tables[name]
        kinds = {column: "TEXT" if column in _TEXT else "INTEGER" for column in present}
        picked = ", ".join(f'CAST("{c}" AS {kinds[c]})' if c in kinds else "NULL" for c in columns)
        count = self._checks = 0
        try:
            for row in self._connection.execute(f'SELECT {picked} FROM "{name}"'):
                count += 1
                if count > self._most_rows:
                    raise sqlite3.DataError(f"a view gives more than {self._most_rows:,} rows")
                yield row
        except _ERRORS as error:
            why = str(error)
            if self._checks > self._most_checks:
                most = self._most_checks * _INSTRUCTIONS_PER_CHECK
                why = f"more than {most:,} instructions of SQLite"
            self._warnings.append(
                f"Table {table} could be read only up to row {count} ({why}): the file is damaged "
                "or ends early."
            )

    def texts(self, table: str, number: str, text: str) -> dict[int, str]:
        """Return a table of texts by number, without those that are null."""
        rows = self.rows(table, number, text)
        return {key: value for key, value in rows if value is not None}

    def _columns(self, table: str) -> list[str]:
        try:
            columns = self._connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        except _ERRORS:
            # A view of a table that is missing cannot be read either.
            return []
        return [row[1] for row in columns]


def has_tables(path: str, head: bytes, *any_of: str) -> bool:
    """Return whether a file is an SQLite database with at least one of these tables or views."""
    if not head.startswith(MAGIC):
        return False
    with Database(path) as database:
        try:
            return any(database.has(table) for table in any_of)
        except TraceError:
            return False
