"""Between plain values, as JSON has them, and typed ones."""

import base64
import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache
from typing import Any

from ._struct import Raw, Struct, hints


class MsgspecError(Exception):
    pass


class DecodeError(MsgspecError):
    pass


class ValidationError(DecodeError):
    pass


class FloatText(float):
    """A number that still knows how it was written."""

    text: str

    @classmethod
    def of(cls, text: str) -> Any:
        made = cls(text)
        made.text = text
        return made


class IntText(int):
    """The same, whole."""

    text: str

    @classmethod
    def of(cls, text: str) -> Any:
        made = cls(text)
        made.text = text
        return made


def written(value: Any) -> str:
    """Return a value as JSON, its numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return getattr(value, "text", None) or json.dumps(value)


def convert(value: Any, type: Any = Any, *, strict: bool = True) -> Any:
    kind = type
    if kind is Any or kind is object or isinstance(kind, typing.TypeVar):
        return value
    if kind is Raw:
        return Raw(written(value).encode())
    if kind is None or kind is types.NoneType:
        return _check(value is None, value, value, "null")
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return convert(value, args[0], strict=strict)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, args, strict)
    if origin is typing.Literal:
        return _check(value in args, value, value, str(args))
    if origin is not None:
        return _container(value, origin, args, strict)
    if isinstance(kind, builtin_type):
        return _plain(value, kind, strict)
    return value


builtin_type = type


def _plain(value: Any, kind: Any, strict: bool) -> Any:
    if issubclass(kind, Struct):
        return _struct(value, kind, strict)
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError:
            raise ValidationError(f"Invalid enum value {value!r}") from None
    if kind in (list, dict, tuple, set, frozenset):
        return _container(value, kind, (), strict)
    if kind is bytes:
        return base64.b64decode(_check(isinstance(value, str), value, value, "str"))
    if kind is float:
        if not strict and isinstance(value, str):
            return _number(value, float)
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        return _check(good, value, float(value) if good else None, "float")
    if kind is int:
        if not strict and isinstance(value, str):
            return _number(value, int)
        whole = isinstance(value, int) and not isinstance(value, bool)
        even = isinstance(value, float) and value.is_integer()
        return _check(whole or even, value, int(value) if whole or even else None, "int")
    if dataclasses.is_dataclass(kind):
        known = typing.get_type_hints(kind)
        value = _check(isinstance(value, Mapping), value, value, "object")
        pairs = ((name, item) for name, item in value.items() if name in known)
        return kind(**{name: convert(item, known[name], strict=strict) for name, item in pairs})
    return _check(isinstance(value, kind), value, value, kind.__name__)


def _number(value: str, kind: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValidationError(f"Expected `{kind.__name__}`, got {value!r}") from None


def _check(good: bool, value: Any, result: Any, wanted: str) -> Any:
    if not good:
        raise ValidationError(f"Expected `{wanted}`, got `{type(value).__name__}`")
    return result


def _one_of(value: Any, kinds: tuple[Any, ...], strict: bool) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    if isinstance(value, Mapping):
        for kind in kinds:
            config = getattr(kind, "__struct_config__", None)
            if config and config.tag is not None and value.get(config.tag_field) == config.tag:
                return convert(value, kind, strict=strict)
    for plain in (bool, int, float, str):  # as it is written, before any conversion
        if isinstance(value, plain) and plain in kinds:
            return value if isinstance(value, bool) else plain(value)
        if isinstance(value, bool):
            break  # bool is an int to Python, but not in JSON
    for kind in kinds:
        try:
            return convert(value, kind, strict=strict)
        except ValidationError:
            continue
    raise ValidationError(f"`{type(value).__name__}` is none of {kinds}")


def _container(value: Any, kind: Any, args: tuple[Any, ...], strict: bool) -> Any:
    if issubclass(kind, Mapping):
        keys, values = args or (Any, Any)
        value = _check(isinstance(value, Mapping), value, value, "object")
        # Keys are always text in JSON.
        return {
            convert(key, keys, strict=False): convert(item, values, strict=strict)
            for key, item in value.items()
        }
    value = _check(isinstance(value, (list, tuple)), value, value, "array")
    if kind is tuple and args and args[-1] is not Ellipsis:
        _check(len(args) == len(value), value, None, f"array of {len(args)}")
        return tuple(convert(v, k, strict=strict) for v, k in zip(value, args, strict=True))
    items = [convert(item, args[0], strict=strict) if args else item for item in value]
    return items if kind not in (tuple, set, frozenset) else kind(items)


def _struct(value: Any, kind: Any, strict: bool) -> Any:
    config, fields, known = kind.__struct_config__, kind.__fields__, hints(kind)
    if config.array_like:
        value = _check(isinstance(value, (list, tuple)), value, value, "array")
        pairs = dict(zip(fields, value, strict=False))
    else:
        value = _check(isinstance(value, Mapping), value, value, "object")
        if config.tag is not None and value.get(config.tag_field, config.tag) != config.tag:
            raise ValidationError(f"Invalid value {value[config.tag_field]!r}")
        pairs = {n: value[f.encode_name] for n, f in fields.items() if f.encode_name in value}
    try:
        return kind(**{n: convert(v, known[n], strict=strict) for n, v in pairs.items()})
    except TypeError as error:
        raise ValidationError(str(error)) from None


def to_builtins(value: Any, *, enc_hook: Any = None) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Struct):
        return _fields_of(value, enc_hook)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_key(k): to_builtins(v, enc_hook=enc_hook) for k, v in value.items()}
    if isinstance(value, (list, tuple, AbstractSet)):
        return [to_builtins(item, enc_hook=enc_hook) for item in value]
    if isinstance(value, Raw):
        return json.loads(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if type(value) is float:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
        return {name: to_builtins(item, enc_hook=enc_hook) for name, item in pairs}
    if enc_hook is not None:
        return to_builtins(enc_hook(value), enc_hook=enc_hook)
    if isinstance(value, (str, int, float)):
        return next(base(value) for base in (str, int, float) if isinstance(value, base))
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _key(key: Any) -> Any:
    return to_builtins(key) if not isinstance(key, (int, float)) else str(key)


def _fields_of(value: Struct, enc_hook: Any) -> Any:
    config, fields = type(value).__struct_config__, type(value).__fields__
    if config.array_like:
        return [to_builtins(getattr(value, name), enc_hook=enc_hook) for name in fields]
    found = {} if config.tag is None else {config.tag_field or "type": config.tag}
    for name, one in fields.items():
        item = getattr(value, name)
        if not (config.omit_defaults and one.is_default(item)):
            found[one.encode_name] = to_builtins(item, enc_hook=enc_hook)
    return found


@lru_cache(maxsize=256)
def holds_raw(kind: Any) -> bool:
    """Tell whether text as it was written is asked for."""
    if isinstance(kind, type) and not typing.get_origin(kind) and issubclass(kind, Struct):
        return any(holds_raw(one) for one in hints(kind).values())
    return kind is Raw or any(map(holds_raw, typing.get_args(kind)))
