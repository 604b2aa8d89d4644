"""Protobuf messages built at run time; a compiled module must fit the protobuf of TensorBoard."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
INT, UINT, DOUBLE = _FIELD.TYPE_INT64, _FIELD.TYPE_UINT64, _FIELD.TYPE_DOUBLE
BYTES, MESSAGE = _FIELD.TYPE_BYTES, _FIELD.TYPE_MESSAGE
TEXT = BYTES
"""Names may hold bytes that are no UTF-8, on which a string field would fail the whole file."""
_PACKAGE = "lightning_gpuprof"
Messages = Mapping[str, Sequence[tuple[str, int, int, str]]]
"""Fields by message: name, number, type, and the type of a message; `*` marks a repeated one."""


def message_class(messages: Messages, root: str) -> Any:
    """Return the class of the message `root`."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}/{root}.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind, rest in fields:
            repeated = rest.endswith("*")
            field = message.field.add(name=field_name, number=number, type=kind)
            field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            if kind == MESSAGE:
                field.type_name = f".{_PACKAGE}.{rest.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{root}"))
