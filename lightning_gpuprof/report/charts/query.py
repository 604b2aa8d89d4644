"""Checks the parameters of a request for a view; an error says which values are allowed."""

import re
from collections.abc import Mapping

from lightning_gpuprof.errors import GpuProfError

_WHOLE = re.compile(r"-?[0-9]{1,19}")


class QueryError(GpuProfError, ValueError):
    """A request parameter that cannot be used; the tab answers it with status 400."""


class Query:
    """Typed access to a request's parameters.

    >>> Query({"buckets": "20"}).integer("buckets", default=600, low=1, high=2000)
    20
    """

    def __init__(self, params: Mapping[str, str]) -> None:
        self._params = params

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter as it is."""
        return self._params.get(name, default)

    def integer(self, name: str, *, default: int, low: int, high: int) -> int:
        """Return a parameter as an int between two bounds."""
        text = self._params.get(name)
        if text is None or text == "":
            return default
        if not _WHOLE.fullmatch(text):
            raise QueryError(f"{name}={text[:40]!r} is not a whole number.")
        value = int(text)
        if not low <= value <= high:
            raise QueryError(f"{name}={value} is out of range: pass {low} to {high}.")
        return value
