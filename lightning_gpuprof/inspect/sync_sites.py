"""The host syncs of the inspected steps, counted by line."""

import linecache
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from lightning_gpuprof.inspect.places import Line, Place, place_of, user_line
from lightning_gpuprof.records.schema import SyncSite
from lightning_gpuprof.session.places import shown_path


@dataclass
class Hit:
    """One host sync, with its duration where that is known."""

    place: Place
    operation: str
    blocked_ns: int | None = None


Report = Callable[[str], Hit | None]
"""Called with the operation's name while the call that syncs is on the Python stack."""


@dataclass
class SyncSites:
    """Collects host syncs and makes one row of each line.

    A value that Lightning reads by itself, for the progress bar or a logger, is counted at the
    user's `self.log` call that asked for it.
    """

    would_sync: bool = False
    _hits: list[Hit] = field(default_factory=list)
    _logged: dict[str, Line] = field(default_factory=dict)

    def add(self, operation: str) -> Hit | None:
        """Take a sync in while its call is on the stack; None outside the training loop."""
        place = place_of(sys._getframe(1))
        if place is None:
            return None
        hit = Hit(place, operation)
        self._hits.append(hit)
        return hit

    def logs(self, name: str) -> None:
        """Remember which line logs a value, while `self.log` is on the stack."""
        line = user_line(sys._getframe(1))
        if line is not None:
            self._logged[name] = line

    def rows(self, steps: int) -> tuple[SyncSite, ...]:
        """Return the rows of so many steps, most blocking first."""
        rows: dict[tuple[Line, str], list[Hit]] = {}
        for hit in self._hits:
            rows.setdefault((self._line(hit.place), hit.place.owner), []).append(hit)
        sites = [_site(line, hits, steps, self.would_sync) for (line, _), hits in rows.items()]
        return tuple(sorted(sites, key=lambda site: (-(site.blocked_ns or 0), -site.count)))

    def _line(self, place: Place) -> Line:
        own = place.file, place.line, place.function
        if place.owner != "lightning" or place.metric is None:
            return own
        name = place.metric
        return self._logged.get(name) or self._logged.get(name.removesuffix("_step")) or own


def _site(line: Line, hits: list[Hit], steps: int, would_sync: bool) -> SyncSite:
    operations = Counter(hit.operation for hit in hits)
    blocked = [hit.blocked_ns for hit in hits if hit.blocked_ns is not None]
    phases = Counter(hit.place.phase for hit in hits)
    file, number, function = line
    return SyncSite(
        file=shown_path(file),
        line=number,
        function=function,
        source=linecache.getline(file, number).strip(),
        owner=hits[0].place.owner,
        operation=", ".join(name for name, _ in operations.most_common()),
        count=len(hits),
        steps_watched=max(1, steps),
        blocked_ns=sum(blocked) if blocked else None,
        would_sync=would_sync,
        phase=phases.most_common(1)[0][0],
    )
