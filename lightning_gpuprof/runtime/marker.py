"""Writes the event by which TensorBoard knows that a run has something for the PROFILE tab.

The event is encoded here, since TensorBoard may be missing where a run trains. An event file is a
sequence of TFRecords: length, checksum of the length, message, checksum of the message. The
messages are protobuf, of TensorBoard's `event.proto`, `summary.proto` and `tensor.proto`.
"""

import os
import struct
import time
from pathlib import Path

from lightning_gpuprof.records.schema import SCHEMA_VERSION

PLUGIN_NAME = "gpuprof"
TAG = "gpuprof"
FILE_NAME = "events.out.tfevents.0000000000.gpuprof"
"""This name sorts before the event files of all loggers. TensorBoard reads the files of a run in
this order and never returns to an earlier file, so with a later name it would stop reading the file
of a logger that is still writing."""
_CRC32C, _MASK_DELTA = 0x82F63B78, 0xA282EAD8
_DT_INT64 = 9
_DATA_CLASS_TENSOR = 2


def write_marker(run_dir: str) -> None:
    """Write the marker tensor into a run's log dir, unless it is there already.

    Without it TensorBoard would have to scan every folder to find the runs that have records.
    """
    path = Path(run_dir) / FILE_NAME
    if path.exists():
        return
    os.makedirs(run_dir, exist_ok=True)
    try:
        path.write_bytes(event_file(time.time()))
    except OSError:  # on a full disk an empty file with this name may remain
        path.unlink(missing_ok=True)
        raise


def event_file(wall_time: float) -> bytes:
    """Return an event file that holds the marker, a scalar tensor with the schema's version.

    Args:
        wall_time: Seconds since 1970, from which TensorBoard takes when the run began.
    """
    plugin_data = _message(1, PLUGIN_NAME.encode())
    metadata = _message(1, plugin_data) + _number(4, _DATA_CLASS_TENSOR)
    tensor = _number(1, _DT_INT64) + _message(2, b"") + _message(10, bytes([SCHEMA_VERSION]))
    value = _message(1, TAG.encode()) + _message(8, tensor) + _message(9, metadata)
    at = struct.pack("<Bd", 1 << 3 | 1, wall_time)
    version = _record(at + _message(3, b"brain.Event:2"))
    return version + _record(at + _message(5, _message(1, value)))


def _message(field: int, content: bytes) -> bytes:
    """Return a protobuf field with a length: a message, a text, or packed numbers."""
    return bytes([field << 3 | 2, len(content)]) + content  # both are below 128


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3, value])


def _record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _checksum(length) + message + _checksum(message)


def _checksum(content: bytes) -> bytes:
    """Return the masked CRC-32C of a TFRecord."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_CRC32C if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
    return struct.pack("<I", masked)
