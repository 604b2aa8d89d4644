"""Device events in bursts: what one stream is given between two moments at which the host waits."""

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.traces.timeline import DeviceEvents, Int64

Floats = npt.NDArray[np.float64]


class Bursts:
    """Runs of device events of one stream that no other event depends on but the last.

    Within a burst each event waits for its launch and for the one before it. So, with the host
    at `h` when it begins to launch the burst and the work before it ended at `b`, the burst ends
    at `max(h + from_host, b + from_before)`.

    Args:
        device: The events.
        linked: By row: whether it waits for the row before it on its stream.
        epoch: By row: the number of waits of the host before its launch.
        rank: By row: its place in the order of launching, in which bursts are numbered too.
        told: Pairs of a row and one of another stream that it waits for, as two columns.
        waited_for: Rows that the host waits for.

    Attributes:
        of: By row: its burst.
        epoch: By burst.
        before: By burst: the burst whose end its first event waits for; -1 for none.
        told: By burst, where there are any: bursts of other streams that it waits for.
    """

    def __init__(
        self,
        device: DeviceEvents,
        *,
        linked: npt.NDArray[np.bool_],
        epoch: Int64,
        rank: Int64,
        told: tuple[Int64, Int64],
        waited_for: Int64,
    ) -> None:
        rows = np.lexsort((device.stream, device.device))  # each stream's in order of start
        begins, ends = ~linked, np.zeros(len(rows), dtype=np.bool_)
        begins[told[0]] = True
        ends[told[1]] = ends[waited_for] = True
        new = begins[rows]
        new[1:] |= ends[rows[:-1]] | (epoch[rows[1:]] != epoch[rows[:-1]])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(rows))[: len(first)] - 1
        order = np.argsort(rank[rows[first]])
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        self._rows, self._first, self._number = rows, first, number
        self._last = last
        self.of = np.empty(len(rows), dtype=np.int64)
        self.of[rows] = number[np.cumsum(new) - 1]
        self.epoch = epoch[rows[first[order]]]
        before = np.where(linked[rows[first]], np.append(-1, number)[: len(first)], -1)
        self.before: list[int] = before[order].tolist()
        self.told: dict[int, list[int]] = {}
        for row, other in zip(*(column.tolist() for column in told), strict=True):
            self.told.setdefault(int(self.of[row]), []).append(int(self.of[other]))
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def ends(self, ready: Floats, gap: Floats, dur: Floats) -> tuple[list[float], list[float]]:
        """Return `from_host` and `from_before` of each burst.

        Args:
            ready: By row: when it could begin as far as its launch goes, from the host's `h` on.
            gap: By row: its delay after the work before it.
            dur: By row: how long it takes.
        """
        if not len(self._order):
            return [], []
        rows = self._rows
        step = gap[rows] + dur[rows]
        reached = np.cumsum(step)
        latest = np.maximum.reduceat(ready[rows] + dur[rows] - reached, self._first)
        whole = reached[self._last] - reached[self._first] + step[self._first]
        from_host = latest + reached[self._last]
        return from_host[self._order].tolist(), whole[self._order].tolist()
