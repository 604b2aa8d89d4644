"""The ranks of a run side by side, and for which rank the others wait."""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.ranks.rank_results import RankResults
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.document import (
    Chart,
    Column,
    Figure,
    Figures,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import duration

MOST_RANKS = 8
"""If there are more ranks, those that wait least are shown at first."""
STRAGGLER = "straggler-rank"
ALIKE_FRAC = 0.02
"""Ranks whose phases differ by less than this share of the step are alike, even if surely."""


def ranks_section(run: RunResults, findings: Sequence[Finding]) -> Section | None:
    """Return a row for each rank; None if there is only one rank."""
    if len(run.ranks.views) < 2:
        return None
    many = len(run.ranks.views) > MOST_RANKS
    ranks = sorted(run.ranks.views, key=_waits) if many else list(run.ranks.views)
    phases = [phase for phase in Phase if any(rank.phase_mean_ns.get(phase) for rank in ranks)]
    hosts = len({rank.host for rank in run.ranks.views})
    rows = tuple(_row(rank) for rank in ranks)
    columns = (
        Column("rank", "Rank", "count"),
        Column("host", "Host", "text", detail="page" if hosts > 1 else "verbose"),
        Column("status", "Ended", "text", detail="verbose"),
        Column("steps", "Steps", "count"),
        Column("median_ns", "Median step", "ns"),
        Column("mean_ns", "Mean step", "ns"),
        Column("waited_ns", "Waits for others", "ns"),
        Column(
            "last_frac", "Comes last", "frac", note="share of steps in which the others wait for it"
        ),
        Column(
            "exchange_ns",
            "Exchanges gradients",
            "ns",
            note="with the wait for ranks that are late; a part of Backward",
            detail="verbose",
        ),
        Column("batches", "Batches per epoch", "count", detail="verbose"),
        *(
            Column(_key(phase), phase_label(phase.value), "ns", detail="verbose")
            for phase in phases
        ),
        Column("error", "Error", "text", detail="verbose"),
    )
    table = Table("ranks", columns, rows, first_rows=MOST_RANKS if many else None)
    where = f" on {hosts} hosts" if hosts > 1 else ""
    note = f"{len(run.ranks.views)} ranks{where}"
    if many:
        note += "; those that wait least come first"
    sentence, _ = rank_verdict(run.ranks, findings)
    body: list[Text | Table | Figures | Chart] = [Text((sentence,)), table]
    if (basis := rank_basis(run.ranks)) is not None:
        body.append(Text((basis,), "note"))
    if (difference := run.ranks.difference) is not None:
        label = f"rank {difference.rank} longer than the others"
        more = Figure("rank_difference_ns", label, difference.more_ns, "ns")
        body.append(Figures((more,)))
    body.append(Chart("ranks", "Ranks side by side"))
    return Section("ranks", "Ranks", "page", tuple(body), note=note)


def rank_basis(ranks: RankResults) -> str | None:
    """Say what figures of ranks rest on if their records are too long to read; else None."""
    if ranks.rolled_steps is None:
        return None
    first, last = ranks.rolled_steps
    return (
        "Mean steps and phases are from the rollups of the ranks' records, and the median is that "
        f"of stretches of steps. For whom the ranks wait is by steps {first:,} to {last:,}."
    )


def rank_verdict(ranks: RankResults, findings: Sequence[Finding]) -> tuple[str, int | None]:
    """Say which rank the others wait for, or in which phase the ranks differ most.

    Returns:
        The sentence, and the rank that it is about.
    """
    late = next((finding for finding in findings if finding.id == STRAGGLER), None)
    if late is not None:
        rank = next((place.rank for place in late.places if place.rank is not None), None)
        return f"{late.title}.", rank
    step_ns = next((view.mean_ns for view in ranks.views if view.mean_ns), 0)
    difference = ranks.difference
    if difference is None or difference.more_ns < ALIKE_FRAC * step_ns:
        return "The ranks are alike.", None
    sentence = (
        f"Ranks differ most in {phase_label(difference.phase.value).lower()}: "
        f"rank {difference.rank} takes {duration(difference.more_ns)} longer than the others."
    )
    return sentence, difference.rank


def _waits(rank: RankView) -> tuple[bool, int]:
    return rank.waited_ns is None, rank.waited_ns or 0


def _key(phase: Phase) -> str:
    return f"{phase.value}_ns"


def _row(rank: RankView) -> dict[str, Value]:
    return {
        "rank": rank.rank,
        "host": rank.host,
        "status": rank.status,
        "steps": rank.steps,
        "median_ns": rank.median_ns,
        "mean_ns": rank.mean_ns,
        "waited_ns": rank.waited_ns,
        "last_frac": rank.last_frac,
        "exchange_ns": rank.exchange_ns,
        "batches": rank.batches,
        "error": rank.error,
        **{_key(phase): ns for phase, ns in rank.phase_mean_ns.items()},
    }
