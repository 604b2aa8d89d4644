"""JSON to typed values and back."""

import json
import math
from typing import Any, Generic, TypeVar

from ._convert import DecodeError, FloatText, IntText, convert, holds_raw, to_builtins

T = TypeVar("T")


class Decoder(Generic[T]):
    def __init__(self, type: Any = Any, *, strict: bool = True) -> None:
        self._type, self._strict = type, strict

    def decode(self, text: Any) -> Any:
        text = text if isinstance(text, str) else bytes(text)
        try:
            numbers: Any = {}
            if holds_raw(self._type):
                numbers = {"parse_float": FloatText.of, "parse_int": IntText.of}
            value = json.loads(text, parse_constant=_refuse, **numbers)
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"JSON is malformed: {error}") from None
        return convert(value, self._type, strict=self._strict)


class Encoder:
    def __init__(self, *, enc_hook: Any = None) -> None:
        self._enc_hook = enc_hook

    def encode(self, value: Any) -> bytes:
        return encode(value, enc_hook=self._enc_hook)


def decode(text: Any, *, type: Any = Any, strict: bool = True) -> Any:
    return Decoder(type, strict=strict).decode(text)


def encode(value: Any, *, enc_hook: Any = None) -> bytes:
    plain = _finite(to_builtins(value, enc_hook=enc_hook))
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()


def format(text: Any, *, indent: int = 2) -> Any:
    return json.dumps(json.loads(text), indent=indent, ensure_ascii=False).encode()


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
