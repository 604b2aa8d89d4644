"""Memory is given back to the system and handed out anew in each step, page by page.

## What it measures
`faults_per_step_count`: minor page faults of the training thread per batch, from behind the first
batches to the end of training, less those for batches that worker processes hand over;
`fault_cost_ns`: these times what one takes, which is tried at the end (fresh memory, written to
page by page), at most what the thread spent in the kernel (`getrusage`).

## Why it matters
On a CPU tensors come from the C library. What is freed at the end of its heap it gives back to the
system, large blocks at once, and the next step takes as much again: the kernel fills each page with
zeros when it is first written to, and throws the step's numbers out of the caches for it. No
operator shows it: it looks like slow additions and copies.

## What to do
Have the C library keep what was freed (glibc's `MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_`),
or load another one that does (jemalloc, tcmalloc). Tensors above 32 MiB are given back by glibc all
the same.

## Thresholds
`MIN_FRAC`: less is hardly worth a change. `LOW_FRAC` to `HIGH_FRAC` of the cost went with these two
settings in six programs (docs/adr/0031): beside the faults, caches stay warm. Where worker
processes begin anew with each epoch pages are copied after each fork, whatever the C library keeps:
nothing is sure then, as on a GPU, where the host may be ahead. Severity: `info`, however much it
is: how the heap comes to lie differs from run to run of the same program, so the next one may have
as much of it, or none; `compare` says so where two runs differ by it.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Severity
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.page_faults import page_faults_noted
from lightning_gpuprof.records.schema import BATCH_NOTE
from lightning_gpuprof.units import duration, percent

ID = "page-faults"
EFFORT = Effort(Horizon.QUICK, "two environment variables", "the process keeps what it has freed")
MIN_FRAC = 0.01
LOW_FRAC, HIGH_FRAC = 0.8, 1.6
CHANGE = """# in front of the command that trains (glibc reads them when the process begins):
MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_MMAP_THRESHOLD_=33554432 python train.py"""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where handing out memory takes time in each step."""
    seen, step_ns = page_faults_noted(run.notes), run.step_ns
    if seen is None or step_ns is None:
        return Abstained(ID, "page faults were not counted (Linux alone, from some 70 batches on)")
    loader = run.start.loader
    workers = 0 if loader is None else loader.num_workers or 0
    handed = (last_noted(run.notes, BATCH_NOTE, int) or 0) if workers else 0
    faults = seen.faults / seen.batches - handed / seen.page_bytes
    cost_ns = seen.cost_ns(handed)
    if cost_ns < MIN_FRAC * step_ns:
        return None
    forks = bool(workers) and not (loader and loader.persistent_workers)
    low, high = round(LOW_FRAC * cost_ns), round(HIGH_FRAC * cost_ns)
    saving = by_host(low, high, step_ns, unsure=forks or run.on_gpu)
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title=f"{faults:,.0f} pages of memory are handed out anew in each step: "
        f"{duration(cost_ns)} ({percent(cost_ns / step_ns)})",
        advice="What tensors free goes back to the system, and the next step takes it again, page "
        "by page and filled with zeros: how much differs from run to run. Let the C library keep "
        "it, or load jemalloc or tcmalloc.",
        evidence={
            "faults_per_step_count": round(faults),
            "fault_cost_ns": cost_ns,
            "fault_ns": round(seen.fault_ns),
            "system_ns": round(seen.system_ns / seen.batches),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        change=CHANGE,
    )
