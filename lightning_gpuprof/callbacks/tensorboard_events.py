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

from lightning_gpuprof.callbacks.timed_calls import untimed

Rows = Sequence[tuple[int, Mapping[str, float]]]
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


class TensorBoardEvents:
    """One logger's event file.

    Args:
        experiment: torch's SummaryWriter.
    """

    def __init__(self, experiment: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._experiment = experiment
        self._new_event: Any = Event

    @classmethod
    def of(cls, logger: Any) -> "TensorBoardEvents | None":
        """Return the events of a logger; None where `log_metrics` may do anything else."""
        own = f"{type(logger).__module__}.{type(logger).__name__}"
        if own not in _LOGGERS or getattr(logger, "_prefix", None):
            return None
        method = untimed(logger.log_metrics)
        if getattr(method, "__func__", None) is not type(logger).log_metrics:
            return None
        experiment = logger.experiment
        if type(experiment).__module__ != "torch.utils.tensorboard.writer":
            return None
        if "add_scalar" in vars(experiment) or not hasattr(_file_of(experiment), "write"):
            return None
        return cls(experiment)

    def write(self, rows: Rows) -> None:
        """Append each step's values, behind everything that was logged before.

        Raises:
            OSError: The file cannot be written.
        """
        event = self._new_event()
        value = event.summary.value.add()
        events = []
        for step, values in rows:
            event.step = step
            event.wall_time = time.time()
            for value.tag, value.simple_value in values.items():
                events.append(event.SerializeToString())
        if not events:
            return
        self._experiment._get_file_writer().event_writer.flush()
        _file_of(self._experiment).write(framed(events))


_LOGGERS = {
    f"{package}.loggers.tensorboard.TensorBoardLogger"
    for package in ("lightning.pytorch", "pytorch_lightning")
}


def _file_of(experiment: Any) -> Any:
    writer = experiment._get_file_writer().event_writer
    return getattr(writer, "_general_file_writer", None)


def framed(records: Sequence[bytes]) -> bytes:
    """Return records as an event file holds them: length, checksum, data, checksum.

    >>> framed([b"abc"]).hex(" ", -4)
    '03000000 00000000 b099490e 6162636e 57f121'
    """
    by_length: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        by_length.setdefault(len(record), []).append(index)
    frames = [b""] * len(records)
    for length, chosen in by_length.items():
        header = struct.pack("<Q", length)
        header += struct.pack("<I", int(masked_crc32c([header])[0]))
        crcs = masked_crc32c([records[index] for index in chosen]).astype("<u4").tobytes()
        for place, index in enumerate(chosen):
            frames[index] = header + records[index] + crcs[4 * place : 4 * place + 4]
    return b"".join(frames)


def masked_crc32c(records: Sequence[bytes]) -> npt.NDArray[np.uint32]:
    """Return TensorFlow's masked CRC-32C of each record; all must have one length.

    >>> [hex(crc) for crc in masked_crc32c([b"123456789"])]
    ['0xc78ab0e5']
    """
    length = len(records[0])
    data = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(records), length)
    # A CRC is linear: each byte adds its own share, which only its distance from the end decides.
    shares = _shares(length)[data + _rows(length)]
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
