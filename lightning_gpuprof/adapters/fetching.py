"""The method that Lightning calls before it fetches a training batch.

Private names, seen in Lightning 2.4 to 2.6; without them a step is taken to begin after its fetch:
    epoch_loop._on_before_fetch: called between the end of one step and the fetch of the next
    fit_loop._data_fetcher._start_profiler: where a running loop holds that method
"""

from collections.abc import Callable
from typing import Any

_NAME, _HELD = "_on_before_fetch", "_start_profiler"


class BeforeFetch:
    """Reads and replaces the method in one Trainer's loops."""

    def __init__(self, trainer: Any) -> None:
        self._fit_loop = trainer.fit_loop
        self._loop = trainer.fit_loop.epoch_loop
        self.found = hasattr(self._loop, _NAME)

    def get(self) -> Any:
        """Return the method as it is now."""
        return getattr(self._loop, _NAME, None)

    def put(self, method: Callable[[], None]) -> None:
        """Replace it, also where a running loop holds it; Lightning's own is put back as such."""
        before = self.get()
        vars(self._loop).pop(_NAME, None)
        if self.get() != method:
            setattr(self._loop, _NAME, method)
        fetcher: Any = getattr(self._fit_loop, "_data_fetcher", None)
        if getattr(fetcher, _HELD, None) == before:
            setattr(fetcher, _HELD, method)
