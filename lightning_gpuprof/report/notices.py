"""Notices on a run: missing ranks, how ranks ended, and traces that are not analysed."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from lightning_gpuprof.analysis.run.behind_window import BehindWindow
from lightning_gpuprof.analysis.run.pace import PaceChange
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, FileSystem, plugin_dir
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import duration, percent

_MOST = 6
_LOST = re.compile(
    r"[Cc]onnection (was )?(closed|reset|refused)|[Rr]emote (worker|process)|Broken pipe|"
    r"NCCL|ncclRemoteError|DistBackendError|SIGTERMException"
)
"""Matches messages of gloo, NCCL and Lightning on ranks that ended because another rank did."""


def rank_notices(results: RunResults) -> Iterator[str]:
    """Yield a sentence for everything that is unusual about the ranks of a run."""
    present, world = {rank.rank for rank in results.ranks.views}, results.start.world_size
    missing = [rank for rank in range(world) if rank not in present]
    if missing:
        yield (
            f"Records of {len(present)} of {world} ranks are here (missing: {rank_list(missing)}"
            f"{_machines(results, missing)}). Each rank that has the callback writes to its own "
            "machine's disk: where machines share none, copy the others' "
            "plugins/gpuprof/rank*.jsonl next to these. Until then it is not known which rank the "
            "others wait for."
        )
    if results.status != "finished":
        yield from _unequal_epochs(results.ranks.views)
    ends = {(rank.status, rank.error) for rank in results.ranks.views}
    if len(ends) > 1 or (len(results.ranks.views) > 1 and results.status == "exception"):
        text = "; ".join(_endings(results.ranks.views))
        yield f"{text[0].upper()}{text[1:]}."


def _machines(results: RunResults, ranks: Iterable[int]) -> str:
    """Name the machines of ranks if all are known; Lightning numbers ranks machine by machine."""
    devices = settings_of(results.start).num_devices
    if devices is None or devices < 1:
        return ""
    hosts = {view.rank // devices: view.host for view in results.ranks.views}
    hosts |= {node: host for node, host in enumerate(results.start.hosts) if host}
    names = list(dict.fromkeys(hosts.get(rank // devices, "") for rank in ranks))
    more = " and more" if len(names) > _MOST else ""
    return f" on {', '.join(names[:_MOST])}{more}" if all(names) else ""


def trace_notices(
    run: str, results: RunResults, failed: Mapping[str, str], fs: FileSystem
) -> Iterator[str]:
    """Yield a sentence for each trace on local disks that this version has not analysed.

    `failed` holds, by trace file, why its analysis has just failed.
    """
    for trace in results.traces if fs is LOCAL else ():
        name = trace.cycle.trace_file
        path = os.path.join(plugin_dir(run), name)
        if os.path.basename(name) != name or not os.path.exists(path):
            continue
        if name in failed:
            yield failed[name]
            continue
        for doubt in trace.analysis.doubts if trace.analysis else ():
            yield f"{name}: {doubt} No finding rests on this trace's device times."
        if trace.analysis is None:
            if os.path.exists(path + ANALYSIS_SUFFIX):
                continue  # it cannot be read; who tried to read it has reported that
            state = "is not analysed yet"
        elif trace.analysis.is_older:
            state = "was analysed by an older version of this package"
        else:
            continue
        yield (
            f"{name} {state}, so findings may be missing here. The PROFILE tab analyses it when "
            "the run is opened, and then fills in. By hand: "
            f"lightning-gpuprof report {shlex.quote(run)}"
        )


def busy_notice(results: RunResults) -> str | None:
    """Say that training waited for free cores; None if it hardly did or was not measured."""
    wait, cores = results.facts.core_wait, results.start.cpu_count
    if wait is None or not wait.busy_frac:
        return None
    these = f"the {cores} cores" if cores else "the cores"
    workers = results.start.loader is not None and results.start.loader.num_workers
    others = "other processes, its loader workers among them," if workers else "other programs"
    return (
        f"Training waited {percent(wait.frac)} of its time for a free core, because {others} used "
        f"{these} as well: times and savings here include that wait."
    )


def pace_notice(pace: PaceChange) -> str:
    """Say how the step time changes for good, and in which phase most."""
    phase = pace.main_phase
    mostly = f", mostly in {phase_label(phase.value).lower()}" if phase is not None else ""
    if pace.per_step_ns is None:
        return (
            f"From step {pace.since_step:,} on steps take {duration(pace.after_ns)} instead of "
            f"{duration(pace.before_ns)}{mostly}: means are of both."
        )
    return (
        f"From step {pace.since_step:,} to {pace.until_step:,} every step takes "
        f"{duration(pace.per_step_ns)} longer than the one before{mostly}: "
        f"{duration(pace.before_ns)} become {duration(pace.after_ns)}, and means are of all."
    )


AT_WINDOW_STEPS = 20
"""How near the end of a window the steps that change for good are taken to change because of it."""


def begins_at_window(pace: PaceChange, behind: BehindWindow | None) -> bool:
    """Return whether a lasting change of the step time is that of the profiler window."""
    if behind is None or pace.until_step is not None:
        return False
    return abs(pace.since_step - behind.since_step) <= AT_WINDOW_STEPS


def window_notice(results: RunResults, behind: BehindWindow) -> str:
    """Say how much slower a profiler window left the run, and what to do about it."""
    teardown = "" if results.start.config.get("teardown") == "on" else "set teardown='on', or "
    begins = f"{teardown}record a later window (wait=...) or none (trace=False)."
    return (
        f"Behind the profiler window, from step {behind.since_step:,} on, work on a batch takes "
        f"{duration(behind.before_ns + behind.more_ns)} instead of {duration(behind.before_ns)} "
        f"({percent(behind.more_frac)} more): torch.profiler leaves CUPTI attached to the GPU, "
        f"which makes every launch slower. {begins[0].upper()}{begins[1:]}"
    )


def rank_list(ranks: Iterable[int]) -> str:
    """Name ranks; consecutive ranks are written as a range.

    >>> rank_list([0, 1, 2, 5, 8, 9])
    '0 to 2, 5, 8, 9'
    """
    texts: list[str] = []
    for _, group in groupby(enumerate(ranks), lambda item: item[1] - item[0]):
        span = [rank for _, rank in group]
        texts += [f"{span[0]} to {span[-1]}"] if len(span) > 2 else map(str, span)
    more = len(texts) - _MOST
    return ", ".join(texts[:_MOST]) + (f" and {more} more" if more > 0 else "")


def first_few(texts: Sequence[str], most: int = _MOST) -> list[str]:
    """Return the first of many similar sentences, and how many more there are.

    >>> first_few(["a", "b", "c"], 2)
    ['a', 'b', 'And 1 more like these.']
    """
    more = len(texts) - most
    return [*texts[:most], *([f"And {more} more like these."] if more > 0 else [])]


def _unequal_epochs(ranks: Sequence[RankView]) -> Iterator[str]:
    """Yield why ranks may wait for each other forever at the end of an epoch."""
    batches = [(rank.batches, rank.rank) for rank in ranks if rank.batches]
    fewest, short_rank = min(batches, default=(0, 0))
    most, long_rank = max(batches, default=(0, 0))
    if fewest < most:
        yield (
            f"An epoch has {most} batches on rank {long_rank} and {fewest} on rank {short_rank}: "
            "the rank with more batches waits at its end for gradients that never come. Give all "
            f"ranks the same number: Trainer(limit_train_batches={fewest}), or Lightning's own "
            "sampler."
        )


def _endings(ranks: Sequence[RankView]) -> Iterator[str]:
    """Yield how ranks ended, the ranks that failed by themselves first."""
    by_end: dict[tuple[int, str], list[int]] = {}
    for rank in ranks:
        by_end.setdefault(_end(rank), []).append(rank.rank)
    for (_, how), numbers in sorted(by_end.items()):
        yield f"{'rank' if len(numbers) == 1 else 'ranks'} {rank_list(numbers)} {how}"


def _end(rank: RankView) -> tuple[int, str]:
    """Return how a rank ended, after a number by which causes sort before their consequences."""
    if rank.error and _LOST.search(rank.error):
        return 2, "lost the connection to another rank"
    if rank.status == "exception":
        why = f" ({rank.error.splitlines()[0][:200]})" if rank.error else ""
        return 0, f"ended by an exception{why}"
    if rank.status == "open":
        return 1, "left no closing record (killed, or still running)"
    return 3, "was interrupted" if rank.status == "interrupted" else rank.status
