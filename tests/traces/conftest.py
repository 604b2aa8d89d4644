import sqlite3
from collections import defaultdict
from pathlib import Path

import pytest

from lightning_gpuprof.traces.timeline import of_category


@pytest.fixture(scope="session")
def tiny_traces() -> Path:
    """The made-up run of tests/data/make_traces.py in every format."""
    return Path(__file__).parents[1] / "data" / "traces"


@pytest.fixture
def write_database(tmp_path):
    """Write an SQLite file: of each table its columns, by commas, and its rows."""

    def write(**tables):
        path = tmp_path / "made.db"
        with sqlite3.connect(path) as connection:
            for table, (columns, rows) in tables.items():
                connection.execute(f"CREATE TABLE {table} ({columns})")
                marks = ", ".join("?" * len(columns.split(",")))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.close()
        return str(path)

    return write


@pytest.fixture
def totals_by_name():
    """Sum a timeline's events of some categories by name: {name: (count, total ns)}."""

    def total(timeline, table, *categories):
        found = defaultdict(lambda: [0, 0])
        mask = of_category(table, *categories)
        for name, duration in zip(table.name[mask], table.dur_ns[mask], strict=True):
            entry = found[timeline.names[name]]
            entry[0] += 1
            entry[1] += int(duration)
        return {name: tuple(entry) for name, entry in found.items()}

    return total
