"""Decodes text from files into typed values and refuses what is not finite, in range or sound."""

import sys
from collections import Counter
from typing import Any, TypeVar

import msgspec

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.lines import CapturedLines, HostLines, OutsideLines, WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Column, Record, RunStart

_T = TypeVar("_T")
MOST_NUMBER, MOST_FLOAT = 1 << 62, 1e150
"""The sum of two such integers fits into 64 bits, and the square of such a float is finite."""
MOST_NESTING, MOST_TEXT, MOST_RANKS, MOST_LINES = 64, 1 << 20, 1 << 20, 1_000
MOST_LINE_BYTES = 1 << 26
_MOST_WARNINGS = 100
_RECORD = msgspec.json.Decoder(Record)
_PHASES = frozenset(phase.value for phase in Phase)
_SIGNED = (
    *("torch_settings", "trainer", "model", "config", "value", "start_ns"),
    *("constant_bytes", "per_sample_bytes"),
)
"""Fields of records that may be negative, such as the user's own settings.

All others are counts or sizes, in which a negative integer is damage.
"""


class _Optimizer(msgspec.Struct):
    kind: str = msgspec.field(name="class")
    groups: int = 1


class _Settings(msgspec.Struct):
    """Settings of the trainer and the model that rules compute with."""

    parameter_bytes: int = 0
    dtypes: dict[str, int] = {}
    optimizers: list[_Optimizer] = []
    log_every_n_steps: int = 0


class RefusedLines:
    """The lines of a record file that cannot be read, each with a sentence that says why.

    Args:
        name: The file's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: dict[int, str] = {}

    def refuse(self, number: int, why: str) -> None:
        """Note that a line cannot be read; what exceeds a hundred lines is not noted."""
        if len(self._texts) < _MOST_WARNINGS:
            self._texts[number] = f"line {number} of {self._name} cannot be read: {why}."

    def note_start(self, number: int, reason: str) -> str:
        """Note, and return, why the session that starts in a line cannot be read."""
        self._texts[number] = f"{self._name}:{number}: {reason}"
        return self._texts[number]

    def warnings(self, *, is_incomplete: bool) -> tuple[str, ...]:
        """Return the sentences by line, and one more if the last line is incomplete."""
        texts = [text for _, text in sorted(self._texts.items())]
        if is_incomplete:
            texts.append(
                f"{self._name}: the last record is incomplete (the run was killed, or is being "
                "written) and is left out."
            )
        return tuple(texts)


def read_record(line: bytes) -> Record:
    """Decode a line of a record file.

    Raises:
        UnreadableError: The line is no record, or holds a value that cannot be; its text says why.
    """
    record: Record = decoded(_RECORD, line)
    if isinstance(record, RunStart):
        if record.world_size > MOST_RANKS:
            raise UnreadableError(f"world_size is more than {MOST_RANKS:,} ranks")
        typed({**record.trainer, **record.model}, _Settings)
    elif isinstance(record, HostLines):
        _check_samples(record)
    elif isinstance(record, WorkerLines):
        _check_samples(record.as_lines)
    elif isinstance(record, OutsideLines):
        _check_samples(record.as_lines)
    elif isinstance(record, CapturedLines):
        if record.host is not None:
            _check_samples(record.host)
        if record.workers is not None:
            _check_samples(record.workers.as_lines)
    return record


def decoded(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T:
    """Decode JSON and check its values; raise `UnreadableError` if it cannot be read.

    >>> decoded(msgspec.json.Decoder(dict[str, int]), b'{"steps": 4611686018427387904}')
    Traceback (most recent call last):
    lightning_gpuprof.errors.UnreadableError: steps is beyond 2^62
    """
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise UnreadableError(f"it is nested deeper than {MOST_NESTING} levels") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise UnreadableError(f"{_encoding_error(text) or error!s:.300}") from error
    check_values(value, "it")
    return value


def _encoding_error(text: bytes) -> str | None:
    """Say where a text is not UTF-8, which msgspec before 0.23 says too; None if it is."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return str(error)
    return None


def typed(value: Any, kind: type[_T]) -> _T:
    """Convert plain values to a type; raise `UnreadableError` if they do not fit it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UnreadableError(str(error)) from error


def check_values(value: Any, name: object, least: int = -MOST_NUMBER, depth: int = 0) -> None:
    """Raise `UnreadableError` for numbers out of range, too long strings and too deep nesting.

    Args:
        value: Anything that JSON can hold, or a struct.
        name: What the value is called in the error.
        least: The least integer allowed.
        depth: How deep the value is nested.
    """
    kind = type(value)
    if kind is int:
        # In settings, users write sys.maxsize for "never".
        is_never = value == sys.maxsize and least < 0 and depth > 1
        if not least <= value < MOST_NUMBER and not is_never:
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
        for key, item in value.items():
            if type(item) is not Column:  # the reader checks columns, of which runs have millions
                check_values(item, key, least, depth + 1)
    elif kind is list or kind is tuple:
        for item in value:
            # Ordinary floats are not handed on, because recorded losses are many.
            if type(item) is not float or not abs(item) < MOST_FLOAT:
                check_values(item, name, least, depth + 1)
    elif isinstance(value, msgspec.Struct) and kind is not Column:
        for field in value.__struct_fields__:
            low_end = -MOST_NUMBER if field in _SIGNED else 0
            check_values(getattr(value, field), field, low_end, depth + 1)


def _check_samples(samples: HostLines) -> None:
    """Refuse samples of which a phase has more at its lines than in all."""
    if len(samples.lines) > MOST_LINES:
        raise UnreadableError(f"it holds more than {MOST_LINES:,} lines")
    at_lines = Counter[str]()
    for line in samples.lines:
        at_lines[line.phase] += line.count
    too_many = any(count > samples.by_phase.get(phase, 0) for phase, count in at_lines.items())
    too_many |= max(samples.by_phase.values(), default=0) > samples.whole
    if too_many or at_lines.keys() - _PHASES:
        raise UnreadableError("its samples do not add up by phase")


def unreadable_start(start: RunStart) -> str | None:
    """Return why only another version can read a session; None if this version can."""
    if start.schema_version != SCHEMA_VERSION:
        newer = start.schema_version > SCHEMA_VERSION
        change = "Upgrade lightning-gpuprof" if newer else "Train again"
        written = f"written with record schema {start.schema_version}"
        return f"{written}; this version reads {SCHEMA_VERSION}. {change} to see it."
    if unknown := [phase for phase in start.phases if phase not in _PHASES]:
        phases = ", ".join(unknown)
        return f"it times phases that this version does not know ({phases}). Upgrade " + (
            "lightning-gpuprof to see it."
        )
    return None
