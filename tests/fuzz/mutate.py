"""Changes files as damage, other tools and people with bad intentions do; seeded, so repeatable."""

import copy
import gzip
import json
import pickle
import sqlite3
from contextlib import suppress
from random import Random

import msgspec
from google.protobuf.message import DecodeError

from lightning_gpuprof.records.schema import Column
from lightning_gpuprof.traces.jax.jax_xplane import SPACE
from lightning_gpuprof.traces.jax.messages import message_class

ODD = (
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30)),
    *(0.5, -0.5, 1e18, 1e308, -1e308, float("nan"), float("inf"), "", "x", "0x10", "nan", "-5"),
    *("\0", "é\u202e", "\ud800", "forward", "rank1.jsonl", "../x", "a" * 3000, [], {}, [[]], [0]),
    *({"a": 1}, [1e308], [None], {"name": []}, [[2, 3], [3, 4]], [2**40] * 4, "9" * 5000),
)
TOKENS = (
    *(b"\xff", b"\0", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"-", b"1e308"),
    *(b"9" * 5000, b"[" * 5000, b'{"a":' * 3000, b"(" * 3000, b"NaN", b"Infinity", b"null"),
    *(b"\\ud800", b"\xed\xa0\x80", b"\x1f\x8b", b"r\xff\xff\xff\x7f", b"\x96" + b"\xff" * 7, b" "),
)
NUMBERS = (0, -1, 1, 5, 10**9, 2**31, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63))


def odd(value, rng):
    """Return something else in the place of a value."""
    if isinstance(value, int | float) and rng.random() < 0.5:
        return rng.choice((-value, value * 2, value + 1, value * 10**9, str(value), float(value)))
    if isinstance(value, str) and rng.random() < 0.3:
        return rng.choice((value[:-1], value * 2, value + "\0", value.upper()))
    return copy.deepcopy(rng.choice(ODD))


def tree(value, rng):
    """Return JSON's values with one of them changed, added, moved or left out."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return odd(value, rng)
    changed = value.copy()
    keys = list(changed) if isinstance(changed, dict) else range(len(changed))
    key, how = rng.choice(keys), rng.random()
    if how < 0.07:
        del changed[key]
    elif how < 0.12:
        changed[key] = changed[rng.choice(keys)]
    elif how < 0.16 and isinstance(changed, list):
        changed[key:key] = [changed[key]] * rng.choice((1, 2, 40))
    elif how < 0.16:
        changed[rng.choice(("steps", "name", "gpu", "x"))] = changed.pop(key)
    else:
        changed[key] = tree(changed[key], rng)
    return changed


def several(change, value, rng):
    """Change a value once, or a few times."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = change(value, rng)
    return value


def raw(data, rng):
    """Return bytes with some flipped, lost, doubled or put in."""
    at = rng.randrange(len(data) + 1)
    to = min(len(data), at + rng.choice((1, 2, 8, 100, 1000)))
    how = rng.randrange(6)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + data[to:]
    if how == 2:
        return data[:to] + data[at:]
    if how == 3:
        return data[:at] + rng.choice(TOKENS) + data[at:]
    if how == 4:
        return data[:at] + rng.choice(TOKENS) + data[to:]
    return data[:at] + rng.randbytes(to - at) + data[to:]


def as_json(data, rng):
    """Change JSON as a tree; now and then its text too."""
    text = json.dumps(several(tree, json.loads(data), rng)).encode()
    return raw(text, rng) if rng.random() < 0.1 else text


def records(data, rng):
    """Change lines of a record file: one's values, a column's numbers, their order."""
    lines = data.splitlines()
    at, how = rng.randrange(len(lines)), rng.random()
    if how < 0.06:
        del lines[at]
    elif how < 0.12:
        lines.insert(at, rng.choice(lines))
    elif how < 0.3:
        lines[at] = raw(lines[at], rng)
    else:
        values = json.loads(lines[at])
        if how < 0.55 and values.get("columns"):
            name = rng.choice(list(values["columns"]))
            column = msgspec.convert(values["columns"][name], Column).unpack()
            column[rng.randrange(len(column)) :: rng.choice((1, 2, 99))] = rng.choice(NUMBERS)
            values["columns"][name] = msgspec.to_builtins(Column.pack(column))
        else:
            values = several(tree, values, rng)
        lines[at] = json.dumps(values).encode()
    return b"\n".join(lines) + (b"\n" if rng.random() < 0.9 else b"")


def table(data, rng):
    """Change cells, rows and columns of CSV."""
    rows = [line.split(b",") for line in data.split(b"\n")]
    row = rng.choice(rows)
    how = rng.randrange(5)
    if how == 0:
        rows.insert(rng.randrange(len(rows)), row)
    elif how == 1:
        del row[rng.randrange(len(row))]
    elif how == 2:
        row.insert(0, row[-1])
    else:
        row[rng.randrange(len(row))] = str(rng.choice(ODD)).encode("utf-8", "replace")
    return b"\n".join(b",".join(row) for row in rows)


def database(data, rng):
    """Change an SQLite file by its own means: cells, tables, columns, views in a table's place."""
    made = sqlite3.connect(":memory:")
    if not hasattr(made, "deserialize"):  # before Python 3.11
        return raw(data, rng)
    made.deserialize(data)
    made.text_factory = bytes
    names = [name.decode() for (name,) in made.execute("SELECT name FROM sqlite_master")]
    for _ in range(rng.choice((1, 1, 2, 5))):
        name = rng.choice(names)
        columns = [row[1].decode() for row in made.execute(f'PRAGMA table_info("{name}")')] or ["x"]
        column, value = rng.choice(columns), rng.choice((*ODD[:19], "", "x", b"\xff", "9" * 5000))
        value = max(-(2**63), min(value, 2**63 - 1)) if isinstance(value, int) else value
        orders = (f'UPDATE "{name}" SET "{column}" = ?',) * 7 + (
            f'ALTER TABLE "{name}" DROP COLUMN "{column}"',
            f'DROP TABLE "{name}"',
            f'INSERT INTO "{name}" SELECT * FROM "{name}"',
            f'ALTER TABLE "{name}" RENAME TO moved',
        )
        order = rng.choice(orders)
        with suppress(sqlite3.Error, OverflowError):
            made.execute(order, [value] if "?" in order else [])
            if order.endswith("moved"):
                many = ", ".join(f"moved AS t{i}" for i in range(rng.choice((1, 6))))
                what = rng.choice(("t0.*", "t0.*", f'randomblob(9999999) AS "{column}"'))
                where = rng.choice(("", " WHERE 0", " WHERE abs(t0.rowid) < 0"))
                made.execute(f'CREATE VIEW "{name}" AS SELECT {what} FROM {many}{where}')
    made.commit()
    return made.serialize()


def pickled(data, rng):
    """Change the objects of a pickle, repeat them by reference, or change its opcodes."""
    if rng.random() < 0.3:
        return raw(data, rng)
    content = several(tree, pickle.loads(data), rng)
    if rng.random() < 0.05:
        content = {"segments": [], "device_traces": [[{}] * 1000] * rng.choice((50, 1000))}
    return pickle.dumps(content, protocol=rng.choice((0, 2, 3, 4, 5)))


def messages(data, rng):
    """Change fields of an xplane file's messages."""
    space = message_class(SPACE)()
    try:
        space.ParseFromString(data)
    except DecodeError:
        return raw(data, rng)
    at = space
    while rng.random() < 0.9:
        inner = [value for _, value in at.ListFields() if hasattr(value, "add") and len(value)]
        if not inner:
            break
        at = rng.choice(rng.choice(inner))
    for field, value in at.ListFields():
        if rng.random() < 0.5 and isinstance(value, int):
            setattr(at, field.name, rng.choice((0, 1, 2**31, 2**63 - 1)))
        elif rng.random() < 0.5 and isinstance(value, bytes):
            setattr(at, field.name, rng.choice((b"", b"\xff", b"/device:GPU:" + b"9" * 5000)))
    return space.SerializeToString()


def zipped(change):
    """Return a change of what lies within gzip, or now and then of the stream itself."""

    def changed(data, rng):
        if rng.random() < 0.2:
            return raw(data, rng)
        text = change(gzip.decompress(data), rng)
        if rng.random() < 0.01:
            text += bytes(rng.choice((10**6, 3 * 10**7)))
        return gzip.compress(text, 1)

    return changed


def seeded(*parts):
    """Return a generator of its own for one execution."""
    return Random("/".join(map(str, parts)))
