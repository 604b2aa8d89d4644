"""The messages of XLA's `xplane.proto` that are read here, built at run time.

protobuf comes with TensorBoard; a compiled module would have to fit its version. Field numbers
are those of the published file; fields that are not read are left out, and skipped on reading.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "space_class"]

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
