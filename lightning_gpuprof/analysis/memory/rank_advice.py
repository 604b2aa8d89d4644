"""One batch-size suggestion for all ranks: the smallest, and withheld where any rank's is."""

from collections.abc import Mapping

import msgspec

from lightning_gpuprof.analysis.memory.memory_growth import MemoryGrowth
from lightning_gpuprof.memory.advise import leaking
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Advice


def rank_advice(ranks: Mapping[int, Session], growth: MemoryGrowth | None = None) -> Advice | None:
    """Return the last suggestion of the rank that allows least; `details` name the rank.

    One batch size goes to every rank, so the one with the least headroom decides. Growth of memory
    between steps withdraws a suggestion that was made before it showed.
    """
    last = {rank: found[-1] for rank, s in ranks.items() if (found := s.all(Advice))}
    if not last:
        return None
    withheld = [rank for rank, advice in last.items() if advice.suggested_batch_size is None]
    rank = withheld[0] if withheld else min(last, key=lambda rank: _allowed(last[rank]))
    advice = last[rank]
    if growth is not None and growth.of_device and advice.suggested_batch_size is not None:
        advice = msgspec.structs.replace(
            advice,
            suggested_batch_size=None,
            low=None,
            high=None,
            reason=leaking(growth.bytes_per_step),
            details={},
        )
    if len(ranks) == 1:
        return advice
    details = {**advice.details, "rank": rank, "ranks_advised": len(last)}
    missing = len(ranks) - len(last)
    reason = f"rank {rank}: {advice.reason}" if advice.reason else ""
    if missing:
        more = f"{missing} of {len(ranks)} ranks measured no memory"
        reason = f"{reason}; {more}" if reason else more
    return msgspec.structs.replace(advice, details=details, reason=reason)


def _allowed(advice: Advice) -> tuple[int, int]:
    """Order by size; of two held at one size, the lower band counts."""
    assert advice.suggested_batch_size is not None
    return advice.suggested_batch_size, advice.low or 0
