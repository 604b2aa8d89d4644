"""Shows each warning of other packages once while the same step runs again and again."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NUMBER = re.compile(r"\d+")


@contextmanager
def warned_once() -> Iterator[None]:
    """Show each warning once inside this context, on stderr as usual.

    Python's own "once per line" is forgotten whenever any package changes the filters of
    warnings. Two warnings are the same if they come from the same line and differ in nothing but
    numbers, such as the batch size.
    """
    shown: set[tuple[Any, ...]] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_once(
            message: Any, category: Any, filename: str, lineno: int, *more: Any, **options: Any
        ) -> None:
            key = category, filename, lineno, _NUMBER.sub("", str(message))
            if key not in shown:
                shown.add(key)
                show(message, category, filename, lineno, *more, **options)

        warnings.showwarning = show_once
        yield
