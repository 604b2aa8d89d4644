"""Hands many scalars to a TensorBoardLogger with one write to its event file.

Its own way costs tens of microseconds a value: TensorBoard's writer opens the file anew for each
event and computes checksums byte by byte in Python. The events here are the same, in the same file.
"""

import struct
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.session.timed_calls import untimed

Columns = Mapping[str, Sequence[float | None]]
"""By name, a value of each step, None where it gave none."""
_Bytes = npt.NDArray[np.uint8]
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_WALL_TIME, _STEP = b"\x09", b"\x10"
"""What these fields of an Event begin with."""


class TensorBoardEvents:
    """One logger's event file.

    Args:
        experiment: torch's SummaryWriter.
    """

    def __init__(self, experiment: Any) -> None:
        self._experiment = experiment

    @classmethod
    def of(cls, logger: Any) -> "TensorBoardEvents | None":
        """Return the events of a logger; None where `log_metrics` may do anything else."""
        own = f"{type(logger).__module__}.{type(logger).__name__}"
        if own not in _LOGGERS or getattr(logger, "_prefix", None):
            return None
        if not _is_plain(logger, "log_metrics"):
            return None
        experiment = logger.experiment
        if type(experiment).__module__ != "torch.utils.tensorboard.writer":
            return None
        if not _is_plain(experiment, "add_scalar") or not hasattr(_file_of(experiment), "write"):
            return None
        return cls(experiment)

    def write(self, steps: Sequence[int], columns: Columns) -> None:
        """Append the values, step by step, behind everything that was logged before.

        Raises:
            OSError: The file cannot be written.
        """
        text = events(steps, columns, wall_time=time.time())
        if text:
            self._experiment._get_file_writer().event_writer.flush()
            _file_of(self._experiment).write(text)


_LEAST_OF_SIZE = np.array([1 << 7 * n for n in range(9)], dtype=np.int64)
_LOGGERS = {
    f"{package}.loggers.tensorboard.TensorBoardLogger"
    for package in ("lightning.pytorch", "pytorch_lightning")
}


def _is_plain(owner: Any, name: str) -> bool:
    """Tell whether an object's method is its class's, timed or not."""
    method = untimed(getattr(owner, name))
    return getattr(method, "__func__", None) is getattr(type(owner), name)


def _file_of(experiment: Any) -> Any:
    writer = experiment._get_file_writer().event_writer
    return getattr(writer, "_general_file_writer", None)


def events(steps: Sequence[int], columns: Columns, *, wall_time: float) -> bytes:
    """Return scalars as an event file holds them, step by step."""
    parts: list[tuple[npt.NDArray[np.int64], _Bytes]] = []
    numbers = np.array(steps, dtype=np.int64)
    # Protobuf leaves a step 0 out, and takes a byte more for every 7 bits.
    sizes = np.searchsorted(_LEAST_OF_SIZE, numbers, side="right")
    for order, (tag, column) in enumerate(columns.items()):
        values = np.array(column, dtype=np.float64)
        given = np.ones(len(numbers), dtype=bool)
        if np.isnan(values).any():  # which None has become too
            given[:] = [value is not None for value in column]
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(given & (sizes == size))
            records = _records(wall_time, numbers[chosen], size, _tail(tag), values[chosen])
            parts.append((chosen * len(columns) + order, framed(records)))
    if len(parts) == 1:
        return parts[0][1].tobytes()
    frames = {
        place: frame.tobytes()
        for places, part in parts
        for place, frame in zip(places.tolist(), part, strict=True)
    }
    return b"".join(frames[place] for place in sorted(frames))


def _records(
    wall_time: float,
    steps: npt.NDArray[np.int64],
    size: int,
    tail: bytes,
    values: npt.NDArray[np.float64],
) -> _Bytes:
    """Return events, a row each; `size` is that of their steps in bytes."""
    head = _WALL_TIME + struct.pack("<d", wall_time) + (_STEP if size else b"")
    rows = np.empty((len(steps), len(head) + size + len(tail) + 4), dtype=np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, dtype=np.uint8)
    for number in range(size):
        more = 0x80 if number + 1 < size else 0
        rows[:, len(head) + number] = (steps >> (7 * number)) & 0x7F | more
    rows[:, len(head) + size : -4] = np.frombuffer(tail, dtype=np.uint8)
    with np.errstate(over="ignore"):  # what is too large for a float32 is infinite in it
        rows[:, -4:] = _as_bytes(values.astype("<f4"))
    return rows


@lru_cache(maxsize=256)
def _tail(tag: str) -> bytes:
    """Return what an event of one scalar ends with, up to the value's own four bytes."""
    from tensorboard.compat.proto.event_pb2 import Event

    event: Any = Event()
    event.summary.value.add(tag=tag, simple_value=0.0)
    text: bytes = event.SerializeToString()
    return text[:-4]


def framed(records: _Bytes) -> _Bytes:
    """Return records, a row each, as an event file holds them: length, checksum, data, checksum.

    >>> framed(np.frombuffer(b"abc", np.uint8).reshape(1, 3)).tobytes().hex(" ", -4)
    '03000000 00000000 b099490e 6162636e 57f121'
    """
    count, length = records.shape
    size = np.frombuffer(struct.pack("<Q", length), dtype=np.uint8).reshape(1, 8)
    frames = np.empty((count, 12 + length + 4), dtype=np.uint8)
    frames[:, :8] = size
    frames[:, 8:12] = _as_bytes(masked_crc32c(size))
    frames[:, 12:-4] = records
    frames[:, -4:] = _as_bytes(masked_crc32c(records))
    return frames


def _as_bytes(numbers: npt.NDArray[Any]) -> _Bytes:
    """Return numbers of four bytes as a row of bytes each."""
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return little.view(np.uint8).reshape(len(numbers), 4)


def masked_crc32c(records: _Bytes) -> npt.NDArray[np.uint32]:
    """Return TensorFlow's masked CRC-32C of each row.

    >>> [hex(crc) for crc in masked_crc32c(np.frombuffer(b"123456789", np.uint8).reshape(1, 9))]
    ['0xc78ab0e5']
    """
    length = records.shape[1]
    # A CRC is linear: each byte adds its own share, which only its distance from the end decides.
    shares = _shares(length)[records + _rows(length)]
    crc = np.bitwise_xor.reduce(shares, axis=1) ^ np.uint32(_of_zeros(length))
    rotated: npt.NDArray[np.uint32] = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    masked: npt.NDArray[np.uint32] = rotated + np.uint32(_MASK_DELTA)
    return masked


@lru_cache(maxsize=1)
def _table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


@lru_cache(maxsize=16)
def _shares(length: int) -> npt.NDArray[np.uint32]:
    """Return what each value of a byte adds, for each position in a record of this length."""
    table = _table()
    shares = np.empty((length, 256), dtype=np.uint32)
    share = table
    for position in reversed(range(length)):
        shares[position] = share
        share = table[share & 0xFF] ^ (share >> 8)
    return shares.ravel()


@lru_cache(maxsize=16)
def _rows(length: int) -> npt.NDArray[np.int64]:
    return np.arange(length, dtype=np.int64) * 256


@lru_cache(maxsize=16)
def _of_zeros(length: int) -> int:
    """Return the CRC of a record of zeros, which holds what the CRC's beginning adds."""
    table, crc = _table(), 0xFFFFFFFF
    for _ in range(length):
        crc = int(table[crc & 0xFF]) ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
