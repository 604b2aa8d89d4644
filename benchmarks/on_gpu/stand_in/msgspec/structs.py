"""What is done to structs from outside."""

from typing import Any


def replace(struct: Any, /, **changes: Any) -> Any:
    return type(struct)(**(asdict(struct) | changes))


def asdict(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in type(struct).__fields__}


def astuple(struct: Any) -> tuple[Any, ...]:
    return tuple(asdict(struct).values())


def fields(kind: Any) -> tuple[Any, ...]:
    return tuple((kind if isinstance(kind, type) else type(kind)).__fields__.values())
