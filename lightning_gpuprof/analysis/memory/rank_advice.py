"""One batch-size suggestion for all ranks: the smallest, and withheld where any rank's is."""

from collections.abc import Mapping

import msgspec

from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import Advice


def rank_advice(ranks: Mapping[int, Session]) -> Advice | None:
    """Return the last suggestion of the rank that allows least; `details` say which rank.

    One batch size goes to every rank, so the one with the least headroom decides.
    """
    last = {rank: found[-1] for rank, s in ranks.items() if (found := s.all(Advice))}
    if not last:
        return None
    withheld = [rank for rank, advice in last.items() if advice.suggested_batch_size is None]
    rank = withheld[0] if withheld else min(last, key=lambda rank: _allowed(last[rank]))
    advice = last[rank]
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
    """Return what to order by: of two held at one size, the one whose band begins lower."""
    assert advice.suggested_batch_size is not None
    return advice.suggested_batch_size, advice.low or 0
