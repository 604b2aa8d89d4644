"""The host waits for the device to read values from it.

## Symptom
The step has lines such as `.item()`, `.cpu()` or `print(loss)`, or a trace has long synchronizing
calls.

## Why
While the host waits it queues nothing, so the device is idle afterwards until the next launch. A
loop that reads one value after the other pays for its small operators as well.

## Fix
```python
self.total += loss.item()  # before
self.total += loss.detach()  # after: on the device; read it once, at the epoch's end
```

Replace loops over elements by one operation over the tensor.

## How it is measured
`blocked_ns` is the time in synchronizing calls, from a trace or an inspection. The saving is the
device's idle time behind them. `device_wide_ns` is the part that waits for all streams, and
`reads_per_step_count` the number of single values that are read. Lines come from an inspection, a
trace or samples. Without a trace, device marks show that the host stops in most steps
(`sync_bound_frac`); at most the device's idle time is lost.

## Limits
Waits for copies from pageable memory are reported by `slow-host-to-device-copy`.
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.gpu_busy import gpu_busy
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings import host_work
from lightning_gpuprof.analysis.trace.syncs import CHEAPER
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.needs import stops
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.units import duration, percent

SYNC_FRAC = 0.05
MOST_SITES, MOST_SAMPLED = 5, 2
QUEUED = {"dependency", "kernel_gap"}
"""Causes of idle time in which the next kernel had been launched already."""
GENERAL = (
    "Keep values as tensors (loss.detach() instead of loss.item()), work on whole tensors "
    "instead of element by element, and read once in many steps."
)
INFERENCE = (
    "Keep values as tensors, work on whole tensors instead of element by element, and copy what "
    "leaves the device without blocking: read it after the next step was queued."
)
WIDE = (
    "Each step waits {blocked} for the whole device ({calls:.3g} x {name}): remove the call, or "
    "wait only for the stream that you read from. "
)
WHOLE = "Replace {at} with one operation over the whole tensor, and read its result once."
INSPECT = "`lightning-gpuprof inspect SCRIPT` names the line."
CHANGE = "self.total += loss.detach()  # on the device; read it once, at the epoch's end"
INFERENCE_CHANGE = 'outputs = outputs.to("cpu", non_blocking=True)  # read them after the next step'
EFFORT = Effort(Horizon.QUICK, "a line each: detach instead of item", "values are shown later")
STREAM_EFFORT = Effort(Horizon.QUICK, "one call", "only what the stream wrote may be read")
LOOP_EFFORT = Effort(Horizon.QUICK, "an operation over the whole tensor", "none")


@rule(id="host-sync", needs=("syncs or trace",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about values that the host reads from the device."""
    step_ns, work = run.step_ns, host_work.host_work(run)
    if step_ns is None or host_work.anomaly_on(run):
        return None
    if work is not None and host_work.reads_in_a_loop(work):
        return _loop(run, step_ns, work)
    if run.on_gpu:
        return _on_gpu(run, step_ns, trace_facts(run))
    sites = [site for site in run.facts.sync_sites if site.steps_watched]
    if not sites:
        return None
    per_step = sum(site.count / site.steps_watched for site in sites)
    title = f"{per_step:.1f} reads per step would each stop the host on a GPU"
    evidence = evidence_of(reads_per_step_count=round(per_step, 1))
    return _finding(run, title, evidence, Range(0, 0), 0.9, 0)


def _on_gpu(run: RunResults, step_ns: int, facts: TraceFacts | None) -> Finding | None:
    """Return the finding about waits of the host, by a trace or an inspection."""
    sites = [site for site in run.facts.sync_sites if site.steps_watched]
    blocked = sum((site.blocked_ns or 0) // site.steps_watched for site in sites)
    uploads = (facts.analysis.upload_wait_ns or 0) / facts.steps if facts else 0
    in_calls = max(0, (facts.sync_ns() or 0) - uploads) if facts else 0
    idle = facts.idle_ns("host_sync") if facts else None
    # A rare sync may be in none of the traced steps. Then those of the inspection count.
    cost_ns = min(step_ns, round(in_calls) or blocked)
    bound = run.device.time.state_frac[StepState.SYNC_BOUND] if run.device.time else 0.0
    if cost_ns < SYNC_FRAC * step_ns and not bound and not idle:
        return None
    # The device goes on working during a wait: a sync costs the idle time after it.
    low, high = sorted((round(idle or 0), cost_ns))
    if facts is not None and facts.analysis.idle:
        # At most the device's idle time in which nothing was queued can be saved.
        causes = {row.cause for row in facts.analysis.idle} - QUEUED
        low, high = sorted((low, min(high, round(facts.idle_ns(*causes) or 0))))
    if not high:
        # Without waits in a trace or an inspection, device marks may still show them.
        return _by_marks(run, step_ns, bound) if stops(run) else None
    evidence = evidence_of(
        blocked_ns=cost_ns, device_idle_after_sync_ns=None if idle is None else round(idle)
    )
    title = f"The host waits for the device {duration(cost_ns)} in each step"
    confidence = 0.8 if idle is not None else 0.5
    finding = _finding(run, title, evidence, Range(low, high), confidence, cost_ns)
    return finding if facts is None else _device_wide(finding, facts)


def _by_marks(run: RunResults, step_ns: int, bound_frac: float) -> Finding:
    """Return the finding about waits that only device marks show: at most the idle time is lost."""
    busy, time = gpu_busy(run), measured(run.device.time)
    busy_frac = time.queued_frac if busy is None or busy.busy_frac is None else busy.busy_frac
    idle_ns = round((1 - busy_frac) * step_ns)
    evidence = evidence_of(sync_bound_frac=bound_frac, device_idle_at_most_ns=idle_ns)
    title = f"The host stops to wait for the device in {percent(bound_frac)} of steps"
    finding = _finding(run, title, evidence, Range(0, idle_ns), 0.5, idle_ns)
    return replace(finding, advice=f"{finding.advice} {INSPECT}") if not finding.places else finding


def _device_wide(finding: Finding, facts: TraceFacts) -> Finding:
    """Add the waits for the whole device to a finding if they are most of its time."""
    calls = facts.syncs("device")
    blocked_ns = sum(call.blocked_ns for call in calls) / facts.steps
    if not calls or 2 * blocked_ns < finding.evidence["blocked_ns"]:
        return finding
    waits = WIDE.format(
        blocked=duration(blocked_ns), calls=len(calls) / facts.steps, name=calls[0].name
    )
    at = [call.where for call in calls if call.where][:1]
    return replace(
        finding,
        advice=waits + finding.advice,
        evidence={**finding.evidence, "device_wide_ns": round(blocked_ns)},
        places=finding.places or tuple(Place(file=line.file, line=line.line) for line in at),
        change=CHEAPER["device"],
        effort=STREAM_EFFORT,
    )


def _loop(run: RunResults, step_ns: int, work: host_work.HostWork) -> Finding | None:
    """Return the finding about a loop that reads one value after the other."""
    cost_ns = max(work.read_ns, work.repeated_ns)
    most_ns = min(step_ns, max(work.read_ns, work.loops_most_ns))
    if run.on_gpu and (facts := trace_facts(run)) is not None:
        # What the device computes must run in any case.
        most_ns = round(min(facts.free_ns(step_ns), max(most_ns, work.overhead_ns)))
    saving = Range(low=min(round(host_work.LOOP_LOW_FRAC * cost_ns), most_ns), high=most_ns)
    if not saving.high:
        return None  # the device was busy all the time
    evidence = evidence_of(
        reads_per_step_count=work.reads,
        reading_ns=work.read_ns,
        thin_calls_count=work.short_calls,
    )
    whole_ns = max(cost_ns, most_ns)
    title = f"{work.reads} values are read one by one: {duration(whole_ns)} of each step "
    title += f"({percent(whole_ns / step_ns)})"
    finding = _finding(run, title, evidence, saving, 0.7, whole_ns)
    first = next((place for place in finding.places if place.file), None)
    at = "the loop"
    if first is not None:
        at = f"{short_path(first.file or '')}:{first.line}, `{first.source}`,"
    change = "total = values.sum()  # not sum(value.item() for value in values)"
    return replace(finding, advice=WHOLE.format(at=at), change=change, effort=LOOP_EFFORT)


def _places(run: RunResults) -> tuple[Place, ...]:
    """Return the lines of an inspection, the costliest first, or else sampled lines that read."""
    sites = [site for site in run.facts.sync_sites if site.steps_watched]
    if sites:
        sites.sort(key=lambda site: -(site.blocked_ns or site.count))
        return tuple(
            Place.at(site, phase=site.phase, name=site.owner) for site in sites[:MOST_SITES]
        )
    sampled = run.lines.lines if run.lines is not None else ()
    lines = sorted((line for line in sampled if line.reads), key=lambda line: -line.count)
    return tuple(Place.at(line, phase=line.phase) for line in lines[:MOST_SAMPLED])


def _finding(
    run: RunResults,
    title: str,
    evidence: dict[str, int | float],
    saving: Range,
    confidence: float,
    cost_ns: float,
) -> Finding:
    places = _places(run)
    begin = ""
    if places:
        first = places[0]
        owner = f" ({first.name})" if first.name else ""
        begin = f"Begin with {short_path(first.file or '')}:{first.line}, `{first.source}`{owner}. "
    return Finding(
        title=title,
        advice=begin + (GENERAL if run.trains else INFERENCE),
        evidence=evidence,
        saving_ns=saving,
        cause_ns=Range(round(cost_ns), round(cost_ns)),
        confidence=confidence,
        places=places,
        change=CHANGE if run.trains else INFERENCE_CHANGE,
    )
