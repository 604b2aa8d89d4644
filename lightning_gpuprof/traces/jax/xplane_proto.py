"""The messages of XLA's `xplane.proto` that are read here, built at run time.

protobuf comes with TensorBoard; a compiled module would have to fit its version. Field numbers
are those of the published file; fields that are not read are left out, and skipped on reading.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "space_class", "whole_part"]

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT, _UINT, _TEXT, _BYTES, _DOUBLE, _MESSAGE = (
    _FIELD.TYPE_INT64,
    _FIELD.TYPE_UINT64,
    # Names may hold bytes that are no UTF-8, on which a string field would fail the whole file.
    _FIELD.TYPE_BYTES,
    _FIELD.TYPE_BYTES,
    _FIELD.TYPE_DOUBLE,
    _FIELD.TYPE_MESSAGE,
)
_PACKAGE = "lightning_gpuprof.xplane"
_MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "XSpace": [("planes", 1, _MESSAGE, "XPlane*"), ("errors", 2, _TEXT, "*")],
    "XPlane": [
        ("name", 2, _TEXT, ""),
        ("lines", 3, _MESSAGE, "XLine*"),
        ("event_metadata", 4, _MESSAGE, "EventEntry*"),
        ("stat_metadata", 5, _MESSAGE, "StatEntry*"),
        ("stats", 6, _MESSAGE, "XStat*"),
    ],
    "XLine": [
        ("id", 1, _INT, ""),
        ("name", 2, _TEXT, ""),
        ("timestamp_ns", 3, _INT, ""),
        ("events", 4, _MESSAGE, "XEvent*"),
        ("display_name", 11, _TEXT, ""),
    ],
    "XEvent": [
        ("metadata_id", 1, _INT, ""),
        ("offset_ps", 2, _INT, ""),
        ("duration_ps", 3, _INT, ""),
        ("stats", 4, _MESSAGE, "XStat*"),
    ],
    "XStat": [
        ("metadata_id", 1, _INT, ""),
        ("double_value", 2, _DOUBLE, ""),
        ("uint64_value", 3, _UINT, ""),
        ("int64_value", 4, _INT, ""),
        ("str_value", 5, _TEXT, ""),
        ("bytes_value", 6, _BYTES, ""),
        ("ref_value", 7, _UINT, ""),
    ],
    "XEventMetadata": [("id", 1, _INT, ""), ("name", 2, _TEXT, ""), ("display_name", 4, _TEXT, "")],
    "XStatMetadata": [("id", 1, _INT, ""), ("name", 2, _TEXT, "")],
    "EventEntry": [("key", 1, _INT, ""), ("value", 2, _MESSAGE, "XEventMetadata")],
    "StatEntry": [("key", 1, _INT, ""), ("value", 2, _MESSAGE, "XStatMetadata")],
}
NESTED = (1, 3, 4)
"""Field numbers from a space to a plane, its lines and their events: where files are large."""


@cache
def space_class() -> Any:
    """Return the message class of a whole file, `XSpace`."""
    file = descriptor_pb2.FileDescriptorProto(
        name="lightning_gpuprof/xplane.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, rest in fields:
            repeated = rest.endswith("*")
            field = message.field.add(name=field_name, number=number, type=kind)
            field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            if kind == _MESSAGE:
                field.type_name = f".{_PACKAGE}.{rest.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.XSpace"))


def whole_part(data: bytes, nested: tuple[int, ...] = NESTED) -> tuple[bytes, bool]:
    """Cut a message that ends early after its last whole field, and after that field's, and so on.

    Returns:
        A message that parses, and whether anything was cut.
    """
    position = 0
    while position < len(data):
        tag, after = _varint(data, position)
        end = _end_of_value(data, tag, after)
        if end is None:
            break
        if end > len(data):
            start = _varint(data, after)[1]
            if tag & 7 == 2 and nested and tag >> 3 == nested[0]:
                inner, _ = whole_part(data[start:], nested[1:])
                return data[:position] + _encode(tag) + _encode(len(inner)) + inner, True
            break
        position = end
    return data[:position], position < len(data)


def _end_of_value(data: bytes, tag: int, start: int) -> int | None:
    kind = tag & 7
    if kind == 0:
        end = _varint(data, start)[1]
        return end if end <= len(data) else None
    if kind == 2:
        length, begin = _varint(data, start)
        return begin + length if begin <= len(data) else None
    return start + {1: 8, 5: 4}[kind] if kind in (1, 5) else None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number and the position behind it; beyond the end where it is cut."""
    value = shift = 0
    while position < len(data):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    return value, len(data) + 1


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
