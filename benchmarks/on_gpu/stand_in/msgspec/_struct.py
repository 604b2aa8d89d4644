"""Classes with typed fields."""

from types import SimpleNamespace
from typing import Any, ClassVar, get_type_hints

REQUIRED: Any = object()
OPTIONS = {"tag": None, "tag_field": None, "array_like": False, "frozen": False}
OPTIONS |= {"omit_defaults": False, "kw_only": False, "gc": True}


class Raw(bytes):
    """A piece of JSON that was not decoded."""


class Field:
    def __init__(self, default: Any, factory: Any, encode_name: str | None) -> None:
        self.default, self.default_factory, self.encode_name = default, factory, encode_name
        self.name = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED and self.default_factory is None

    def make(self) -> Any:
        return self.default if self.default_factory is None else self.default_factory()

    def is_default(self, value: Any) -> bool:
        if self.default_factory is not None:
            return type(value) in (list, dict, tuple, set) and not value
        return value is self.default or (
            type(value) is type(self.default) and value == self.default
        )


def field(*, default: Any = REQUIRED, default_factory: Any = None, name: str | None = None) -> Any:
    return Field(default, default_factory, name)


class _Meta(type):
    def __new__(
        mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any
    ) -> Any:
        fields: dict[str, Field] = {}
        config = dict(OPTIONS)
        for base in reversed(bases):
            fields |= getattr(base, "__fields__", {})
            known = getattr(base, "__struct_config__", None)
            config |= vars(known) if known else {}
        config |= {"tag": None, "kw_only": False} | options
        if config["tag_field"] is not None and config["tag"] is None:
            config["tag"] = name
        for key, kind in space.get("__annotations__", {}).items():
            if "ClassVar" in str(kind):
                continue
            given = space.pop(key, REQUIRED)
            if type(given) in (list, dict, set):
                given = Field(REQUIRED, type(given), None)
            made = given if isinstance(given, Field) else Field(given, None, None)
            made.name, made.encode_name = key, made.encode_name or key
            fields[key] = made
        cls = super().__new__(mcs, name, bases, space)
        cls.__fields__ = fields  # type: ignore[attr-defined]
        cls.__struct_config__ = SimpleNamespace(**config)  # type: ignore[attr-defined]
        return cls

    def __init__(cls, name: str, bases: Any, space: Any, **options: Any) -> None:
        super().__init__(name, bases, space)


class Struct(metaclass=_Meta):
    __fields__: ClassVar[dict[str, Field]]
    __struct_config__: ClassVar[Any]

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = type(self).__fields__
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values")
        named |= dict(zip(fields, values, strict=False))
        for name, one in fields.items():
            if name not in named and one.required:
                raise TypeError(f"Missing required argument '{name}'")
            object.__setattr__(self, name, named.pop(name) if name in named else one.make())
        if named:
            raise TypeError(f"Unexpected keyword argument '{next(iter(named))}'")
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self).__struct_config__.frozen:
            raise AttributeError(f"immutable type: '{type(self).__name__}'")
        object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in type(self).__fields__)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        if not type(self).__struct_config__.frozen:
            raise TypeError(f"unhashable type: '{type(self).__name__}'")
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        pairs = zip(type(self).__fields__, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __copy__(self) -> Any:
        return type(self)(**dict(zip(type(self).__fields__, self._values(), strict=True)))


_HINTS: dict[type, dict[str, Any]] = {}


def hints(cls: type) -> dict[str, Any]:
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]
