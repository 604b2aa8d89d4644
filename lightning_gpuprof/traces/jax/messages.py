"""Builds protobuf messages at run time; a compiled module must fit TensorBoard's protobuf.

The package `protobuf` comes with TensorBoard, and is imported when the first message is read.
"""

from functools import cache
from typing import Any

from lightning_gpuprof.errors import TraceError

_TYPES = {
    "int": "TYPE_INT64",
    "uint": "TYPE_UINT64",
    "double": "TYPE_DOUBLE",
    # Names may hold bytes that are no UTF-8, on which a string field would fail the whole file.
    "text": "TYPE_BYTES",
}
_PACKAGE = "lightning_gpuprof"


class DamagedMessageError(ValueError):
    """The bytes are no message, or end early."""


def read_message(messages: str, content: bytes | bytearray) -> Any:
    """Return the message in `content`, which is the first of those described by `messages`.

    Raises:
        DamagedMessageError: The bytes are no such message.
        TraceError: protobuf is not installed.
    """
    try:
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise TraceError(
            "This file is protobuf, and the package that reads it is not installed. Run "
            "`pip install protobuf`, which TensorBoard brings as well."
        ) from error
    message = message_class(messages)()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise DamagedMessageError(str(error)) from error
    return message


@cache
def message_class(messages: str) -> Any:
    """Return the class of the first of the messages that are described.

    A line is a message: its name, then its fields' names, numbers and types, which are those of
    `_TYPES` or messages; `*` marks a repeated field.

    >>> message_class("Line: id 1 int, name 2 text*")(id=3, name=[b"a"]).id
    3
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    of_field = descriptor_pb2.FieldDescriptorProto
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
            repeated = kind.endswith("*")
            field.label = of_field.LABEL_REPEATED if repeated else of_field.LABEL_OPTIONAL
            field.type = getattr(of_field, scalar or "TYPE_MESSAGE")
            if scalar is None:
                field.type_name = f".{_PACKAGE}.{kind.rstrip('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{root}"))
