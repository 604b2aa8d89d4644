"""Pairs of expected and measured steps in a file of the user's own, which no report needs.

The environment variable `LIGHTNING_GPUPROF_PAIRS` names the file. Each line is a row as in
`calibration.json`, in JSON. Without the variable nothing is read or written.
"""

import os
from collections.abc import Sequence

import msgspec

from lightning_gpuprof.analysis.savings.conformal import Pair
from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import LOCAL
from lightning_gpuprof.report.clean import cleaned

VARIABLE = "LIGHTNING_GPUPROF_PAIRS"
_PAIR = msgspec.json.Decoder(Pair)


def pairs_file() -> str | None:
    """Return the path of the user's file of pairs; None if the environment names none."""
    return os.path.expanduser(os.environ.get(VARIABLE, "").strip()) or None


def append_pairs(path: str, pairs: Sequence[Pair]) -> None:
    """Append pairs to a file, a line for each; raise `OSError` if it cannot be written."""
    lines = b"".join(msgspec.json.encode(pair) + b"\n" for pair in pairs)
    with open(path, "ab", buffering=0) as file:  # a single write, as another `try` may append too
        file.write(lines)


def read_pairs() -> tuple[tuple[Pair, ...], tuple[str, ...]]:
    """Return the pairs in the user's file, and a sentence if any of it cannot be read."""
    path = pairs_file()
    if path is None or not os.path.exists(path):  # no trial has measured a pair yet
        return (), ()
    try:
        lines = LOCAL.read_bytes(path).split(b"\n")
    except OSError as error:
        why = error.strerror or error
        return (), (f"The pairs in {path} ({VARIABLE}) are left out: it cannot be read ({why}).",)
    pairs, damaged = [], []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                pairs.append(_read(line))
            except UnreadableError as error:
                damaged.append(f"line {number}: {error}")
    if not damaged:
        return tuple(pairs), ()
    return tuple(pairs), (
        f"In the pairs of {path} ({VARIABLE}), lines that cannot be read are left out "
        f"({len(damaged)} of {len(pairs) + len(damaged)}; {damaged[0]}).",
    )


def _read(line: bytes) -> Pair:
    pair = decoded(_PAIR, line)
    if not min(pair.step_ns, pair.least_ns, pair.likely_ns, pair.most_ns, pair.measured_ns):
        raise UnreadableError("a step takes no time")
    return cleaned(pair)
