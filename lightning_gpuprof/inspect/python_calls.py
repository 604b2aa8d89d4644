"""Counts the Python calls of a step by the user's function, with cProfile."""

from cProfile import Profile
from types import CodeType

from lightning_gpuprof.records.inspection import CallCount
from lightning_gpuprof.session.places import package_of, shown_path

MOST_ROWS = 5


class PythonCalls:
    """Counts from `start` to `stop`; where another profiler is on, nothing is counted."""

    def __init__(self) -> None:
        self._profile: Profile | None = None

    def start(self) -> None:
        """Begin to count in this thread."""
        profile = Profile()
        try:
            profile.enable()
        except ValueError:  # from Python 3.12 on: another tool profiles
            return
        self._profile = profile

    def stop(self) -> None:
        """Count no more."""
        if self._profile is not None:
            self._profile.disable()

    def per_step(self, steps: int) -> float | None:
        """Return all calls of a step; None where they were not counted."""
        if self._profile is None or not steps:
            return None
        return sum(entry.callcount for entry in self._profile.getstats()) / steps

    def rows(self, steps: int) -> tuple[CallCount, ...]:
        """Return the user's functions that make the most calls, the busiest first."""
        if self._profile is None or not steps:
            return ()
        found = [
            CallCount(
                file=shown_path(entry.code.co_filename),
                line=entry.code.co_firstlineno,
                function=entry.code.co_name,
                calls=entry.callcount / steps,
                makes=sum(callee.callcount for callee in entry.calls or ()) / steps,
            )
            for entry in self._profile.getstats()
            if isinstance(entry.code, CodeType) and not package_of(entry.code.co_filename)
        ]
        return tuple(sorted(found, key=lambda row: -row.makes)[:MOST_ROWS])
