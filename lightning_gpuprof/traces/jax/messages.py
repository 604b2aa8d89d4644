"""Builds protobuf messages at run time; a compiled module must fit TensorBoard's protobuf."""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "int": _FIELD.TYPE_INT64,
    "uint": _FIELD.TYPE_UINT64,
    "double": _FIELD.TYPE_DOUBLE,
    # Names may hold bytes that are no UTF-8, on which a string field would fail the whole file.
    "text": _FIELD.TYPE_BYTES,
}
_PACKAGE = "lightning_gpuprof"


@cache
def message_class(messages: str) -> Any:
    """Return the class of the first of the messages that are described.

    A line is a message: its name, then its fields' names, numbers and types, which are those of
    `_TYPES` or messages; `*` marks a repeated field.

    >>> message_class("Line: id 1 int, name 2 text*")(id=3, name=[b"a"]).id
    3
    """
    lines = [line.split(": ") for line in messages.strip().splitlines()]
    root = lines[0][0]
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{_PACKAGE}/{root}.proto", package=_PACKAGE, syntax="proto2"
    )
    for message_name, fields in lines:
        message = file.message_type.add(name=message_name)
        for name, number, kind in map(str.split, fields.split(", ")):
            scalar = _TYPES.get(kind.rstrip("*"))
            field = message.field.add(name=name, number=int(number))
            field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            field.type = scalar or _FIELD.TYPE_MESSAGE
            if scalar is None:
                field.type_name = f".{_PACKAGE}.{kind.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{root}"))
