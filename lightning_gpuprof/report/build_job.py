"""Builds the document of a job's traces: `analyze` of a folder with the traces of all ranks."""

from collections.abc import Iterator

from lightning_gpuprof.analysis.job.job_tables import (
    COMPUTE,
    COPIES,
    IDLE,
    OPERATORS,
    OUTSIDE,
    CollectiveTime,
    Delay,
    JobTraces,
)
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Column,
    Document,
    Section,
    Subject,
    Table,
    Text,
    Verdict,
)
from lightning_gpuprof.units import duration, percent

MIN_DELAY_FRAC = 0.05
"""A rank that others wait for is the answer if they lose this share of their time."""
CAUSES = {
    COMPUTE: "computes",
    COPIES: "copies data",
    IDLE: "leaves its device idle",
    OPERATORS: "runs operators on the host",
    OUTSIDE: "runs Python, waits or sleeps outside operators",
}
"""By the part of its time, what a rank does for longer than the others."""
MOST_NAMED = 12
FIRST_RANKS = 16


def job_document(job: JobTraces, name: str) -> Document:
    """Return the document of a job's traces.

    Args:
        job: What `read_job` returned.
        name: What the job is called, such as its folder.
    """
    count = len(job.ranks)
    line = f"traces of {count} of {job.world_size} ranks of a job"
    subject = Subject("trace", name, line, facts={"world_size": job.world_size})
    return Document(SCHEMA_VERSION, subject, tuple(job_sections(job)))


def job_sections(job: JobTraces) -> Iterator[Section]:
    """Yield what the traces of a job's ranks say together."""
    yield Section("verdict", "", "first", (_verdict(job),))
    notes = tuple(_notes(job))
    if notes:
        yield Section("warnings", "", "first", (Text(notes, "warning"),))
    yield Section("collectives", "Collectives", "first", (_collectives(job),))
    if job.delays:
        yield Section("delays", "Ranks that others wait for", "first", (_delays(job),))
    yield Section("ranks", "Ranks", "page", (_ranks(job),))


def span_ns(job: JobTraces) -> float:
    """Return how much time a rank's trace covers, in the mean."""
    return sum(rank.span_ns for rank in job.ranks) / max(1, len(job.ranks))


def _verdict(job: JobTraces) -> Verdict:
    label, whole_ns = "Held back by", span_ns(job)
    first = job.delays[0] if job.delays else None
    if first is not None and whole_ns and first.waited_ns >= MIN_DELAY_FRAC * whole_ns:
        times = "once" if first.count == 1 else f"{first.count:,} times"
        file = next(rank.file for rank in job.ranks if rank.rank == first.rank)
        return Verdict(
            "limit",
            label,
            f"Rank {first.rank} comes last {times}: the others wait "
            f"{duration(first.waited_ns)} for it ({percent(first.waited_ns / whole_ns)} of the "
            "time)",
            f"Before these it {CAUSES[first.cause]} for longer than they do. "
            f"`lightning-gpuprof analyze {file}` shows where.",
        )
    most = max(job.ranks, key=lambda rank: rank.in_collectives_frac or 0.0)
    share = most.in_collectives_frac or 0.0
    if not job.collectives:
        return Verdict(
            "not_measured",
            "Verdict",
            "No collectives were recorded",
            "Those of NCCL and RCCL are kernels of the device, those of gloo ranges on the host.",
        )
    return Verdict(
        "nothing",
        "Verdict",
        "No rank keeps the others waiting much",
        f"Collectives take up to {percent(share)} of a rank's time (rank {most.rank}), and most of "
        "it is spent on the wire.",
    )


def _notes(job: JobTraces) -> Iterator[str]:
    if job.missing:
        first = ", ".join(map(str, job.missing[:MOST_NAMED]))
        ranks = "ranks" if len(job.missing) > 1 else "rank"
        more = len(job.missing) - MOST_NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        yield (
            f"There is no trace of {ranks} {first}{rest}. What the others waited for them is not "
            "known, and counts as time on the wire."
        )
    yield from job.warnings


def _collectives(job: JobTraces) -> Table:
    columns = (
        Column("collective", "Collective", "text"),
        Column("group", "Process group", "text", keep_end=True),
        Column(
            "ranks_count", "Ranks", "count", "How many ranks' traces have it.", detail="verbose"
        ),
        Column("count", "Times", "count", "How often a rank takes part."),
        Column("num_bytes", "Data", "bytes", "The bytes of all tensors, over all times."),
        Column(
            "wire_ns",
            "On the wire",
            "ns",
            "The shortest duration of each over the ranks: nobody waits after the last one came.",
            bar=True,
        ),
        Column("waited_ns", "Waiting", "ns", "For the last rank, in the mean of the ranks."),
        Column(
            "algorithm_bytes_per_s",
            "algbw",
            "bytes_per_s",
            "Algorithm bandwidth: data over time on the wire.",
            detail="verbose",
        ),
        Column(
            "bus_bytes_per_s",
            "busbw",
            "bytes_per_s",
            "Bus bandwidth: what the slowest link carries, comparable to the hardware's peak.",
        ),
        Column("last_rank", "Last", "text", "The rank that comes last most often."),
    )
    rows = tuple(_collective(row) for row in job.collectives)
    note = None if job.on_device else "Ranges on the host: gloo records no sizes and no groups."
    return Table("collectives", columns, rows, note=note, sort="wire_ns")


def _collective(row: CollectiveTime) -> dict[str, str | int | float | None]:
    last = max(row.last, key=lambda delay: delay.count, default=None)
    return {
        "collective": row.kind,
        "group": row.group,
        "ranks_count": row.ranks,
        "count": row.count,
        "num_bytes": row.num_bytes,
        "wire_ns": row.wire_ns,
        "waited_ns": row.waited_ns if row.ranks > 1 else None,
        "algorithm_bytes_per_s": row.algorithm_bytes_per_s,
        "bus_bytes_per_s": row.bus_bytes_per_s,
        "last_rank": None
        if last is None
        else f"rank {last.rank} ({last.count:,} of {row.matched:,})",
    }


def _delays(job: JobTraces) -> Table:
    columns = (
        Column("rank", "Rank", "count"),
        Column(
            "last_count", "Comes last", "count", "In how many collectives others waited for it."
        ),
        Column("waited_ns", "Others wait", "ns", "In the mean of the other ranks.", bar=True),
        Column("waited_frac", "Share", "frac", "Of the time that the traces cover."),
        Column(
            "cause",
            "What it does longer",
            "text",
            "The part of its time before these collectives that exceeds the other ranks' most.",
        ),
    )
    whole_ns = span_ns(job)
    rows = tuple(_delay(delay, whole_ns) for delay in job.delays)
    return Table("delays", columns, rows, sort="waited_ns", first_rows=FIRST_RANKS)


def _delay(delay: Delay, whole_ns: float) -> dict[str, str | int | float | None]:
    return {
        "rank": delay.rank,
        "last_count": delay.count,
        "waited_ns": delay.waited_ns,
        "waited_frac": delay.waited_ns / whole_ns if whole_ns else None,
        "cause": CAUSES[delay.cause],
    }


def _ranks(job: JobTraces) -> Table:
    columns = (
        Column("rank", "Rank", "count"),
        Column("steps_count", "Steps", "count", detail="verbose"),
        Column("span_ns", "Time", "ns", "The steps in the trace, or without marks all of it."),
        Column("busy_frac", "Busy", "frac", "The share of the time in which the device works."),
        Column(
            "exposed_comm_frac",
            "Exposed comm.",
            "frac",
            "Exposed communication: while the device computes nothing.",
        ),
        Column("idle_frac", "Idle", "frac"),
        Column("in_collectives_frac", "In collectives", "frac", "Waits included."),
        Column("waited_ns", "Waits", "ns", "For the last rank, over all compared collectives."),
        Column("last_count", "Comes last", "count"),
        Column("file", "Trace", "text", detail="verbose", keep_end=True),
    )
    rows = []
    for rank in job.ranks:
        device = rank.device
        row: dict[str, str | int | float | None] = {
            "rank": rank.rank,
            "steps_count": rank.steps,
            "span_ns": rank.span_ns,
            "in_collectives_frac": rank.in_collectives_frac,
            "waited_ns": rank.waited_ns,
            "last_count": rank.last_count,
            "file": rank.file,
        }
        if device is not None and device.span_ns:
            row["busy_frac"] = device.busy_frac
            row["exposed_comm_frac"] = device.exposed_comm_ns / device.span_ns
            row["idle_frac"] = device.idle_ns / device.span_ns
        rows.append(row)
    return Table("ranks", columns, tuple(rows), first_rows=FIRST_RANKS)
