"""A line of the user's own code, as records hold it."""

from msgspec import Struct


class CodePlace(Struct, frozen=True):
    """A line of the user's own code; `function` is empty where it is not known."""

    file: str
    line: int
    function: str
    source: str
