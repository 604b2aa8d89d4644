"""Device events in bursts: what one stream is given between two moments at which the host waits."""

from collections.abc import Callable

import numpy as np

from lightning_gpuprof.analysis.critical_path.device_waits import by_stream
from lightning_gpuprof.analysis.trace.grouping import blocks
from lightning_gpuprof.arrays import Floats, Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import DeviceEvents


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
        rows: All rows, stream by stream, so that each burst's follow each other.
        epoch: By burst.
        before: By burst: the burst whose end its first event waits for; -1 for none.
        told: By burst, where there are any: bursts of other streams that it waits for.
        waited_for: The bursts that end with those rows.
    """

    def __init__(
        self,
        device: DeviceEvents,
        *,
        linked: Mask,
        epoch: Int32,
        rank: Int32,
        told: tuple[Int64, Int64],
        waited_for: Int64,
    ) -> None:
        rows = by_stream(device)
        begins, ends = ~linked, np.zeros(len(rows), dtype=np.bool_)
        begins[told[0]] = True
        ends[told[1]] = ends[waited_for] = True
        new = begins[rows]
        of_row = epoch[rows]
        new[1:] |= ends[rows[:-1]] | (of_row[1:] != of_row[:-1])
        del of_row, begins, ends
        first = np.flatnonzero(new)
        order = np.argsort(rank[rows[first]])
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        self.rows, self._first, self._order = rows, first, order
        self.epoch = epoch[rows[first[order]]]
        before = np.where(linked[rows[first]], np.append(-1, number)[: len(first)], -1)
        self.before: list[int] = before[order].tolist()
        burst = np.empty(len(rows), dtype=np.int32)
        burst[rows] = number[np.cumsum(new, dtype=np.int32) - 1]
        self.waited_for: list[int] = burst[waited_for].tolist()
        self.told: dict[int, list[int]] = {}
        for row, other in zip(*(column.tolist() for column in told), strict=True):
            self.told.setdefault(int(burst[row]), []).append(int(burst[other]))

    def __len__(self) -> int:
        return len(self._order)

    def ends(
        self, of: Callable[[slice], tuple[Floats, Floats, Floats]]
    ) -> tuple[list[float], list[float]]:
        """Return `from_host` and `from_before` of each burst.

        Args:
            of: Gives for some of `rows`: when each could begin as far as its launch goes, from
                the host's `h` on; its delay after the work before it; how long it takes.
        """
        first, before = self._first, 0.0
        latest, reached = np.full(len(first), -np.inf), np.zeros(len(first))
        for block in blocks(len(self.rows)):
            ready, gap, dur = of(block)
            at = before + np.cumsum(gap + dur)
            before = at[-1]
            # The block begins inside a burst that began before it, or with one.
            some = slice(
                int(np.searchsorted(first, block.start, side="right")) - 1,
                int(np.searchsorted(first, block.stop)),
            )
            begins = np.maximum(first[some] - block.start, 0)
            latest[some] = np.maximum(latest[some], np.maximum.reduceat(ready + dur - at, begins))
            reached[some] = at[np.append(begins[1:], len(at)) - 1]
        whole = np.diff(reached, prepend=0.0)
        return (latest + reached)[self._order].tolist(), whole[self._order].tolist()
