"""Names the lines of the forward pass that the rank others wait for is at more than they are."""

from collections import Counter

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.ranks.rank_waits import RankWaits
from lightning_gpuprof.findings.model import Where
from lightning_gpuprof.records.phases import Phase

MIN_FRAC = 0.25
"""A line with less of the phase's samples is one of many (as in `places`)."""
MOST = 2


def lines_there(waits: RankWaits) -> tuple[Where, ...]:
    """Return the lines that take more of a step on the late rank than on another, surely.

    In the forward pass the line seen most often is the model's, on all ranks: what makes one of
    them late is what that one does besides, or longer. Ranks meet in each step, so that shares of
    it can be compared.
    """
    there, elsewhere = host_lines(waits.notes), host_lines(waits.other_notes)
    if there is None or elsewhere is None:
        return ()
    others = Counter[tuple[str, int]]()
    for one in elsewhere.of(Phase.FORWARD):
        others[one.file, one.line] += one.count
    ours: dict[tuple[str, int], list[LineCount]] = {}
    for one in there.of(Phase.FORWARD):
        ours.setdefault((one.file, one.line), []).append(one)
    least = max(LEAST_COUNT, MIN_FRAC * there.by_phase.get(Phase.FORWARD.value, 0))
    found = {}
    for at, ones in ours.items():
        count = sum(one.count for one in ones)
        # One that was never seen elsewhere may be there still, as seldom as once.
        surely = there.interval(count)[0] > elsewhere.interval(max(1, others[at]))[1]
        if count >= least and surely:
            found[Where.at(ones[0], phase=Phase.FORWARD.value)] = count
    return tuple(sorted(found, key=lambda where: -found[where])[:MOST])
