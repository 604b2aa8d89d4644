"""The ranks of a run side by side: where each rank's step goes, and which makes others wait."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lightning_gpuprof.analysis.job.job_tables import JobTraces
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.build_job import job_sections
from lightning_gpuprof.report.charts.cycles import CycleState
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.document import Chart, Column, Part, Section, Table, Text, Value
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.report.notices import rank_notices
from lightning_gpuprof.report.run.ranks import rank_basis, rank_verdict

MOST_RANKS = 32
"""How many lanes fit a page. If there are more ranks, the tab shows those that others wait for."""
SHOWN_FRAC = 0.005
"""A phase below this share of every rank's step has no column."""
EXCHANGE = "exchange"
"""Key of the part of a phase in which a rank exchanges with others, and waits for them."""
_DEVICE = (
    ("kernel_gemm", "Computing", "compute_ns"),
    ("kernel_communication", "Waiting in communication", "exposed_comm_ns"),
    ("memcpy", "Copying", "exposed_copy_ns"),
    ("idle", "Idle", "idle_ns"),
)


class LanePart(Struct, frozen=True):
    """A part of a rank's step."""

    key: str
    """Decides the colour: a phase, or a kind of event."""
    label: str
    ns: float


class RankLane(Struct, frozen=True):
    """A rank's mean steady step by phase, and what its device did in a profiled step."""

    rank: int
    mean_ns: int
    parts: tuple[LanePart, ...]
    device: tuple[LanePart, ...]
    """By the device's clock; empty if no cycle of the rank was analysed."""
    is_slow: bool
    """Whether the others wait for this rank, or it differs most from them."""


class RanksPayload(Struct, frozen=True):
    """The ranks of a run side by side."""

    lanes: tuple[RankLane, ...] = ()
    sections: tuple[Section, ...] = ()
    nothing: str | None = None
    """Why there is nothing to compare."""
    state: CycleState = "no-cycle"
    """How far the comparison of all ranks' traces is."""
    error: str | None = None


def ranks_view(run: LoadedRun, query: Query) -> RanksPayload:
    """Return the ranks side by side, by their records and by the traces of all ranks."""
    payload = _by_records(run, query)
    if run.job_files is None:
        return payload
    if run.job is None:
        return replace(payload, state="not-prepared")
    sections = (*payload.sections, *_by_traces(run.job))
    return replace(payload, sections=sections, nothing=None, state="prepared")


def _by_traces(job: JobTraces) -> Iterator[Section]:
    """Yield what all ranks' traces say, under ids and titles that differ from the records'.

    A table has its section's id, and its rows open no view: a folder of traces has no steps.
    """
    for section in job_sections(job):
        title = "Ranks by their traces" if section.id == "ranks" else section.title
        id = f"traces_{section.id}"
        body = tuple(
            replace(part, id=id) if isinstance(part, Table) else part for part in section.body
        )
        yield replace(section, id=id, title=title, body=body)


def _by_records(run: LoadedRun, query: Query) -> RanksPayload:
    """Compare the records; of many ranks, the first and those that others wait for."""
    report = run.report(query)
    results = report.results
    stepped = [view for view in results.ranks.views if view.mean_ns]
    # If ranks are missing, the first notice says which.
    is_whole = len(results.ranks.views) >= results.start.world_size
    lacking = None if is_whole else next(rank_notices(results), None)
    if len(stepped) < 2:
        return RanksPayload(nothing=_nothing(results.start.world_size, len(stepped), lacking))
    views = ranks_to_show(stepped)
    sentence, slow = rank_verdict(results.ranks, report.findings)
    devices = {view.rank: _device_of(run, view.rank) for view in views}
    lanes = tuple(_lane(view, devices[view.rank], view.rank == slow) for view in views)
    body: list[Part] = []
    if lacking:
        body.append(Text((lacking,), "note"))
    if (basis := rank_basis(results.ranks)) is not None:
        body.append(Text((basis,), "note"))
    if len(views) < len(stepped):
        body.append(
            Text(
                (
                    f"{len(views)} of {len(stepped):,} ranks: the first, and those that the others "
                    "wait for most. report --json has all of them.",
                ),
                "note",
            )
        )
    body += [Chart("ranks", "Where each rank's step goes"), _table(views, devices, slow)]
    if any(devices.values()):
        body.append(
            Text(
                (
                    "A rank that is early waits for the late ranks inside its collective "
                    "operations: the longer that wait, the faster the rank. Idle time of the late "
                    "rank is what the others wait for.",
                ),
                "note",
            )
        )
    return RanksPayload(lanes, (Section("ranks", "Ranks", "page", tuple(body), sentence),))


def ranks_to_show(views: Sequence[RankView], most: int = MOST_RANKS) -> list[RankView]:
    """Return the lowest rank and those that wait least for others, by rank."""
    if len(views) <= most:
        return list(views)
    first, *others = views
    others.sort(key=lambda view: (view.waited_ns is None, view.waited_ns))
    return [first, *sorted(others[: most - 1], key=lambda view: view.rank)]


def _nothing(world_size: int, stepped: int, lacking: str | None) -> str:
    if world_size > 1:
        return lacking or f"Only {stepped} of {world_size} ranks left records of steps here."
    return (
        "This run has one rank: there is nothing to compare. Runs with several (DDP, FSDP) have a "
        "lane for each here."
    )


def _phases(views: Sequence[RankView]) -> list[Phase]:
    """Return the phases in which some rank spends time, in the order of the loop."""
    return [phase for phase in Phase if any(view.phase_mean_ns.get(phase) for view in views)]


def _lane(view: RankView, device: tuple[LanePart, ...], is_slow: bool) -> RankLane:
    parts = []
    for phase in _phases([view]):
        exchange = (view.collectives_ns or {}).get(phase, 0)
        exchange += (view.exchange_ns or 0) if phase is Phase.BACKWARD else 0
        own = LanePart(phase.value, phase_label(phase.value), view.phase_mean_ns[phase] - exchange)
        parts += [own, LanePart(EXCHANGE, "Exchanging with ranks", exchange)]
    spent = tuple(part for part in parts if part.ns > 0)
    return RankLane(view.rank, view.mean_ns or 0, spent, device, is_slow)


def _device_of(run: LoadedRun, rank: int) -> tuple[LanePart, ...]:
    """Return what a rank's device did in a profiled step; empty if no trace was analysed."""
    names = [cycle.trace_file for of, cycle in run.cycles() if of == rank]
    analyses = (run.analysis(name) for name in reversed(names))
    analysis = next((analysis for analysis in analyses if analysis is not None), None)
    if analysis is None or analysis.gpu is None or not analysis.steps:
        return ()
    gpu, steps = analysis.gpu, len(analysis.steps)
    parts = (LanePart(key, label, getattr(gpu, name) / steps) for key, label, name in _DEVICE)
    return tuple(part for part in parts if part.ns > 0)


def _table(
    views: Sequence[RankView], devices: Mapping[int, tuple[LanePart, ...]], slow: int | None
) -> Table:
    phases = [
        phase
        for phase in _phases(views)
        if any(
            view.phase_mean_ns.get(phase, 0) > SHOWN_FRAC * (view.mean_ns or 0) for view in views
        )
    ]
    several = len({view.host for view in views}) > 1
    columns = (
        Column("rank", "Rank", "count"),
        *((Column("host", "Host", "text"),) if several else ()),
        Column("steps", "Steps", "count"),
        Column("median_ns", "Median step", "ns"),
        Column("mean_ns", "Mean step", "ns"),
        Column("waited_ns", "Waits for others", "ns"),
        Column(
            "last_frac",
            "Comes last",
            "frac",
            note="share of steps in which the others wait for it",
        ),
        *(Column(f"{phase.value}_ns", phase_label(phase.value), "ns") for phase in phases),
        Column("exposed_comm_ns", "Waiting in communication", "ns"),
        Column("idle_ns", "Device idle", "ns"),
    )
    rows = tuple(_row(view, devices[view.rank], phases, view.rank == slow) for view in views)
    return Table("ranks", columns, rows, opens="steps")


def _row(
    view: RankView, device: Sequence[LanePart], phases: Sequence[Phase], is_slow: bool
) -> Mapping[str, Value]:
    on_device = {part.key: part.ns for part in device}
    cells: dict[str, Any] = {
        "rank": view.rank,
        "host": view.host,
        "steps": view.steps,
        "median_ns": view.median_ns,
        "mean_ns": view.mean_ns,
        "waited_ns": view.waited_ns,
        "last_frac": view.last_frac,
        **{f"{phase.value}_ns": view.phase_mean_ns.get(phase) for phase in phases},
        "exposed_comm_ns": on_device.get("kernel_communication"),
        "idle_ns": on_device.get("idle"),
        "state": "bad" if is_slow else None,
    }
    return {key: value for key, value in cells.items() if value is not None}
