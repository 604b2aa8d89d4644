"""The border where text from a file becomes values: typed, finite, in range, or refused."""

import sys
from collections import Counter
from typing import Any, TypeVar

import msgspec

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.lines import HostLines, WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Column, Record, RunStart

_T = TypeVar("_T")
MOST_NUMBER, MOST_FLOAT = 1 << 62, 1e150
"""Sums of two such integers fit into 64 bits, and squares of such floats are finite."""
MOST_NESTING, MOST_TEXT, MOST_RANKS, MOST_LINES = 64, 1 << 20, 1 << 20, 1_000
_RECORD = msgspec.json.Decoder(Record)
_PHASES = frozenset(phase.value for phase in Phase)
_SIGNED = ("torch_settings", "trainer", "model", "config", "details", "value", "start_ns")
"""Fields that may be below 0, such as settings of the user's own; all others count something."""


class _Optimizer(msgspec.Struct):
    kind: str = msgspec.field(name="class")
    groups: int = 1


class _Settings(msgspec.Struct):
    """The settings that rules compute with."""

    parameter_bytes: int = 0
    dtypes: dict[str, int] = {}
    optimizers: list[_Optimizer] = []
    log_every_n_steps: int = 0


def read_record(line: bytes) -> Record:
    """Read a line of a record file, or raise `UnreadableError` with what is wrong with it."""
    record: Record = decoded(_RECORD, line)
    if isinstance(record, RunStart):
        if record.world_size > MOST_RANKS:
            raise UnreadableError(f"world_size is more than {MOST_RANKS:,} ranks")
        typed({**record.trainer, **record.model}, _Settings)
    elif isinstance(record, HostLines):
        _check_samples(record)
    elif isinstance(record, WorkerLines):
        _check_samples(record.as_lines)
    return record


def decoded(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T:
    """Decode JSON and check its values, or raise `UnreadableError`.

    >>> decoded(msgspec.json.Decoder(dict[str, int]), b'{"steps": 4611686018427387904}')
    Traceback (most recent call last):
    lightning_gpuprof.errors.UnreadableError: steps is beyond 2^62
    """
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise UnreadableError(f"it is nested deeper than {MOST_NESTING} levels") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise UnreadableError(f"{error!s:.300}") from error
    check_values(value, "it")
    return value


def typed(value: Any, kind: type[_T]) -> _T:
    """Return plain values as a struct, or raise `UnreadableError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UnreadableError(str(error)) from error


def check_values(value: Any, name: object, least: int = -MOST_NUMBER, depth: int = 0) -> None:
    """Refuse numbers out of range, long strings and deep nesting in what JSON can hold."""
    kind = type(value)
    if kind is int:
        never = value == sys.maxsize and least < 0 and depth > 1  # in settings of the user's own
        if not least <= value < MOST_NUMBER and not never:
            low = "below 0" if -MOST_NUMBER < value < 0 else "beyond 2^62"
            raise UnreadableError(f"{name!s:.80} is {low}")
    elif kind is float:
        if not abs(value) < MOST_FLOAT:
            raise UnreadableError(f"{name!s:.80} is beyond {MOST_FLOAT:g}")
    elif kind is str:
        if len(value) > MOST_TEXT:
            raise UnreadableError(f"{name!s:.80} is longer than {MOST_TEXT:,} characters")
    elif depth > MOST_NESTING:
        raise UnreadableError(f"it is nested deeper than {MOST_NESTING} levels")
    elif kind is dict:
        for key, one in value.items():
            check_values(one, key, least, depth + 1)
    elif kind is list or kind is tuple:
        for one in value:
            if type(one) is not float or not abs(one) < MOST_FLOAT:  # losses are many
                check_values(one, name, least, depth + 1)
    elif isinstance(value, msgspec.Struct) and kind is not Column:  # checked where they are joined
        for field in value.__struct_fields__:
            low_end = -MOST_NUMBER if field in _SIGNED else 0
            check_values(getattr(value, field), field, low_end, depth + 1)


def _check_samples(seen: HostLines) -> None:
    if len(seen.lines) > MOST_LINES:
        raise UnreadableError(f"it holds more than {MOST_LINES:,} lines")
    at = Counter[str]()
    for line in seen.lines:
        at[line.phase] += line.count
    beyond = any(count > seen.by_phase.get(phase, 0) for phase, count in at.items())
    if beyond or max(seen.by_phase.values(), default=0) > seen.whole or at.keys() - _PHASES:
        raise UnreadableError("its samples do not add up by phase")
