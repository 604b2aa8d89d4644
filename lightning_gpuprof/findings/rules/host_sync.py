"""The host stops to read values off the device.

## What it measures
From the sync detector: lines of code that make the host wait, how often per step, and for how long.
From a trace: the time in synchronizing calls (on a GPU), what the host does behind copies to itself
before it launches anything, and the reads of single values
(`aten::item`) per step; on a GPU also the turns of loops that read value after value, each from one
read's end to the next one's (`trace/read_loops.py`). A copy to the device from pageable memory
waits too, and reads nothing: see slow-host-to-device-copy.

## Why it matters
While the host waits, it queues nothing: when the device is done it stands idle until the next
launch arrives. On a CPU a read costs its call only, but a loop that reads value after value pays
for its small operators each time, and would stall a GPU.

## What to do
Keep values on the device (`loss.detach()`), sum there, and read once in many steps
(`DeferredLoss`). Replace loops over elements by one operation over the tensor. `self.log("x", 0.5)`
waits once per call on a GPU: Lightning makes a tensor of the number there, by a copy that torch
waits for. `torch.full((), 0.5, device=self.device)` is made by the device itself, and waits for
nothing.

## Thresholds
`SYNC_FRAC`: the 5% of a step in synchronizing calls above which the profiles that this rule is made
for were called sync-bound. `LOOP_READS`: a loop reads at least tens of values a step. A
loop around reads has at most ten operators per read, and takes what is timed of its calls, as in
host-bound (`savings/call_time.py`). On a GPU such a loop costs its turns, launches and waits alike:
one operation over the whole tensor needs none of them. At most they take what they took of a
profiled step, scaled to a steady one; at least they take `EVENT_NS` less for each event in them,
which is what recording it took at most, and of that `LOOP_LOW_FRAC` goes, as in host-bound. Waits
of other reads are added by the replay (`REPLAY_ERROR`). Where the host, behind a copy to itself,
launches nothing for ten times as long as it usually takes from one launch to the next
(`trace/host_stretches.py`), copies and work are one cause: nothing is queued behind a copy that the
host waits for. At most all of that work goes, and `AROUND_FRAC` more; at least what samples saw in
lines of the function that copies, less `LEFT_FRAC`, as in slow-python. Where a trace has waits, its
time of them counts: watched steps are slower. Severity: the common scale (`findings/grade.py`).
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.device_time import StepState
from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.call_time import EVENT_NS
from lightning_gpuprof.analysis.savings.hidden import AROUND_FRAC
from lightning_gpuprof.analysis.savings.host_work import (
    LOOP_LOW_FRAC,
    HostWork,
    anomaly_on,
    host_work,
    reads_in_a_loop,
)
from lightning_gpuprof.analysis.trace.idle import WORKING_CAUSES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import SYNC_STEPS_NOTE, SyncSite
from lightning_gpuprof.units import duration, percent

ID = "host-sync"
EFFORT = Effort(Horizon.QUICK, "a line each: detach instead of item", "values are shown later")
SYNC_FRAC = 0.05
REPLAY_ERROR = 0.3
"""The replay keeps launch costs and clocks as they were with the waits."""
MOST_SITES = 5
QUEUED = {"dependency", "kernel_gap"}
"""Causes of idle time in which the next launch was there already."""
LEFT_FRAC = 0.1
ON_CPU = (
    "on a CPU reading a value (.item()) waits for nothing; `lightning-gpuprof inspect SCRIPT` "
    "names the lines that would wait on a GPU"
)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where reads of values hold the step up."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    if anomaly_on(run):
        return Abstained(ID, "anomaly detection is on: its operators hide the model's own")
    facts, work = trace_facts(run), host_work(run)
    sites = [site for site in run.sync_sites if site.steps_watched]
    watched = any(note.name == SYNC_STEPS_NOTE and note.value for note in run.notes)
    if facts is None and not sites and not watched:
        return Abstained(ID, "neither the sync detector nor an analysed trace has looked")
    if run.on_gpu:
        return _on_gpu(run, run.step_ns, facts, sites)
    if reads_in_a_loop(work):
        assert work is not None
        return _loop(run.step_ns, work, sites)
    if sites:
        return _would_sync(run.step_ns, sites)
    return None if watched else Abstained(ID, ON_CPU)


def _on_gpu(
    run: RunResults, step_ns: int, facts: TraceFacts | None, sites: list[SyncSite]
) -> Finding | None:
    blocked = sum((site.blocked_ns or 0) // site.steps_watched for site in sites)
    in_calls = max(0, (facts.sync_ns() or 0) - facts.upload_wait_ns()) if facts else 0
    idle = facts.idle_ns("host_sync") if facts else None
    # What is rare may be in none of the traced steps: then the watched ones tell.
    cost_ns = min(step_ns, round(in_calls) or blocked)
    if facts is not None and facts.loop_reads:
        return _loop_on_gpu(step_ns, facts, cost_ns, sites)
    bound = run.device_time.state_frac[StepState.SYNC_BOUND] if run.device_time else 0.0
    behind = facts.host_scale * facts.copied_ns(*WORKING_CAUSES) if facts else 0.0
    if facts is not None and behind >= SYNC_FRAC * step_ns:
        return _works_on_copies(run, step_ns, round(behind), cost_ns, facts, sites)
    if cost_ns < SYNC_FRAC * step_ns and not bound and not idle:
        return None
    # What a sync costs is the device's idle time behind it, not the wait: the device works on.
    saving = Range(low=0, high=cost_ns) if idle is None else Range(low=round(idle), high=cost_ns)
    evidence: dict[str, int | float] = {
        "blocked_ns": cost_ns,
        "blocked_frac": cost_ns / step_ns,
        "step_ns": step_ns,
    }
    if idle is not None:
        evidence["device_idle_after_sync_ns"] = round(idle)
    most = _unlaunched_ns(facts) if facts else None
    if most is not None:
        saving = Range(low=saving.low, high=min(saving.high, round(most)))
        evidence["device_without_work_ns"] = round(most)
    saving = Range(low=min(saving.low, saving.high), high=max(saving.low, saving.high))
    replayed = facts.saved_ns("sync") if facts else None
    if replayed is not None:
        # The replay waits for nothing at all, uploads included.
        most = min(step_ns, cost_ns)
        saving = Range(
            low=min(most, round((1 - REPLAY_ERROR) * replayed)),
            high=min(most, round((1 + REPLAY_ERROR) * replayed)),
        )
    if not saving.high:
        return None  # the device had work all the while
    title = f"The host waits for the device {duration(cost_ns)} in each step"
    return _finding(title, evidence, saving, step_ns, sites, 0.8 if idle is not None else 0.5)


def _works_on_copies(
    run: RunResults,
    step_ns: int,
    behind_ns: int,
    blocked_ns: int,
    facts: TraceFacts,
    sites: list[SyncSite],
) -> Finding:
    """Tell of copies to the host and what it does behind them: nothing is queued meanwhile."""
    waited = facts.saved_ns("sync") or 0.0
    lines = _beside(run, sites)
    host, forward = host_lines(run.notes), run.per_step(Phase.FORWARD)
    sure = 0.0
    if host is not None and forward is not None and lines:
        count = sum(one.count for one in lines)
        sure = min(behind_ns, host.interval(count, Phase.FORWARD)[0] * forward.mean_ns)
    idle_ns = facts.free_ns(step_ns)  # nothing shortens what the device works
    saving = Range(
        low=round(min(idle_ns, (1 - REPLAY_ERROR) * waited + (1 - LEFT_FRAC) * sure)),
        high=round(min(idle_ns, (1 + REPLAY_ERROR) * waited + (1 + AROUND_FRAC) * behind_ns)),
    )
    evidence: dict[str, int | float] = {
        "blocked_ns": blocked_ns,
        "behind_copies_ns": behind_ns,
        "step_ns": step_ns,
    }
    title = (
        f"The host waits for copies from the device ({duration(blocked_ns)} of each step) and "
        f"works for {duration(behind_ns)} more ({percent(behind_ns / step_ns)}) before it launches "
        "anything: the device has nothing to do"
    )
    found = _finding(title, evidence, saving, step_ns, sites, 0.8 if lines else 0.6)
    busy = tuple(Where.at(one, phase=one.phase) for one in lines)
    named = {(at.file, at.line) for at in found.where}
    return replace(
        found,
        advice="Do on the device what is done with the copies, as operations on whole tensors, and "
        f"copy its result in one step of many; or do it in one step of many. {found.advice}",
        where=(*found.where, *(at for at in busy if (at.file, at.line) not in named))[:MOST_SITES],
        change=None,
    )


def _beside(run: RunResults, sites: list[SyncSite]) -> list[LineCount]:
    """Return the lines of the functions that copy, by how often samples saw them."""
    lines = host_lines(run.notes)
    if lines is None:
        return []
    copying = {(site.file, site.function) for site in sites if site.phase == Phase.FORWARD.value}
    return [one for one in lines.of(Phase.FORWARD) if (one.file, one.function) in copying]


def _loop_on_gpu(
    step_ns: int, facts: TraceFacts, blocked_ns: int, sites: list[SyncSite]
) -> Finding | None:
    reads, took_ns, events, waited_ns = (
        facts.per_step("read_loops", key) or 0.0
        for key in ("read_count", "total_ns", "event_count", "waited_ns")
    )
    others = max(0.0, (facts.saved_ns("sync") or 0.0) - waited_ns)
    longest = facts.free_ns(step_ns)  # what the device computes has to run all the same
    most = min(longest, facts.host_scale * took_ns)
    least = min(most, max(waited_ns * facts.host_scale, took_ns - EVENT_NS * events))
    saving = Range(
        low=round(LOOP_LOW_FRAC * least),
        high=round(min(longest, most + (1 + REPLAY_ERROR) * others)),
    )
    if not saving.high:
        return None  # the device had work all the while
    evidence: dict[str, int | float] = {
        "reads_per_step_count": round(reads),
        "reading_ns": round(most),
        "blocked_ns": blocked_ns,
        "step_ns": step_ns,
    }
    title = (
        f"{round(reads)} values are read one by one in each step (.item()): with the launches "
        f"before them the host takes {duration(most)} for it ({percent(most / step_ns)}), and "
        "queues nothing else"
    )
    return _whole(_finding(title, evidence, saving, step_ns, sites, 0.7))


def _whole(finding: Finding) -> Finding:
    """Return the finding of a loop of reads with what to write in its place."""
    first = next((at for at in finding.where if at.file), None)
    at = f"{first.file}:{first.line}, `{first.source}`" if first is not None else "the loop"
    return replace(
        finding,
        advice=f"In place of {at}: one operation over the whole tensor, whose result is a tensor, "
        "read once, or once in many steps. It needs one launch where the loop has many, and waits "
        "for none of them.",
        change="total = values.sum()  # not sum(value.item() for value in values)",
    )


def _unlaunched_ns(facts: TraceFacts) -> float | None:
    """Return the device's idle time per step in which nothing was queued.

    No more than that can go where the host waits less: what was queued and waited for other work
    would wait still.
    """
    causes = {str(row.get("cause")) for row in facts.rows("idle")}
    return facts.idle_ns(*(causes - QUEUED)) if causes else None


def _loop(step_ns: int, work: HostWork, sites: list[SyncSite]) -> Finding:
    cost_ns = max(work.read_ns, work.loops_ns)
    least_ns = max(work.read_ns, work.loops_least_ns)
    most_ns = min(step_ns, max(work.read_ns, work.loops_most_ns))
    saving = Range(low=min(round(LOOP_LOW_FRAC * least_ns), most_ns), high=most_ns)
    evidence: dict[str, int | float] = {
        "reads_per_step_count": work.reads,
        "reading_ns": work.read_ns,
        "thin_calls_count": work.thin_calls,
        "step_ns": step_ns,
    }
    title = (
        f"{work.reads} values are read one by one in each step (.item()), which with the small "
        f"operators around them takes {duration(cost_ns)} ({percent(cost_ns / step_ns)})"
    )
    return _whole(_finding(title, evidence, saving, step_ns, sites, 0.7))


def _would_sync(step_ns: int, sites: list[SyncSite]) -> Finding:
    per_step = sum(site.count / site.steps_watched for site in sites)
    evidence: dict[str, int | float] = {"reads_per_step_count": round(per_step, 1)}
    title = f"{per_step:.1f} reads of values per step would each stop the host on a GPU"
    return _finding(title, evidence, Range(low=0, high=0), step_ns, sites, 0.9)


def _finding(
    title: str,
    evidence: dict[str, int | float],
    saving: Range,
    step_ns: int,
    sites: list[SyncSite],
    confidence: float,
) -> Finding:
    ranked = sorted(sites, key=lambda site: -(site.blocked_ns or site.count))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns) if saving.high else Severity.INFO,
        title=title,
        advice=_advice(ranked, saving),
        evidence=evidence,
        saving_ns=saving,
        confidence=confidence,
        where=tuple(Where.at(s, phase=s.phase, name=s.owner) for s in ranked[:MOST_SITES]),
        change="self.total += loss.detach()  # on the device; read it once, at the epoch's end",
    )


def _advice(ranked: list[SyncSite], saving: Range) -> str:
    general = (
        "Keep values as tensors (loss.detach() instead of loss.item()), work on whole tensors "
        "instead of element by element, and read once in many steps."
    )
    if not ranked:
        return general
    first = ranked[0]
    saves = (
        f" All of them together cost up to {duration(saving.high)} a step." if saving.high else ""
    )
    return (
        f"Begin with {first.file}:{first.line}, `{first.source}` ({first.owner}). {general}{saves}"
    )
