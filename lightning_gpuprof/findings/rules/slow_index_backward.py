"""The gradient of rows that are looked up by indexing is added up row after row.

## What it measures
`index_backward_ns`: device time per step of the kernels that add up the gradient of
`table[indices]` (`indexing_backward_kernel` in `IndexBackward`), from a trace; `rows_ns`: the same
of picking the rows in the forward pass, which moves as many bytes.

## Why it matters
A row that is named many times gets a sum of many gradients. The backward pass of indexing sorts the
indices and adds the gradients of one row one after the other, so that the row named most often
decides how long it takes, while the rest of the device has nothing to do.

## What to do
`F.embedding(indices, table)`, or `nn.Embedding`: the same rows, and a gradient that adds up parts
of a long run of one row at the same time. Of very few rows a product with `one_hot` rows does too.

## Thresholds
`MIN_FRAC`: at which advice begins (`WARNING_FRAC` of `findings/grade.py`). An embedding's gradient
sorts the indices as well, which stays, reads each row once and writes sums: at least once what
picking the rows takes, at most `MOST_PASSES` times that. What is above it goes, in steps that the
device holds up, and no step gets shorter than its host's part (`savings/hidden.py`). Where picking
the rows was not in the trace, nothing is known to stay: half is the least. Severity: the common
scale (`findings/grade.py`).
"""

import re

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.findings.grade import WARNING_FRAC, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-index-backward"
EFFORT = Effort(Horizon.QUICK, "one call in place of an index", "sums in another order")
MIN_FRAC = WARNING_FRAC
KERNEL = "indexing_backward_kernel"
NODE = "IndexBackward"
PICKS = "aten::index"
MOST_PASSES = 5
UNKNOWN_FRAC = 0.5
_INDEXED = re.compile(r"[\w)\]]\[\s*[A-Za-z_][\w.]*\s*[\],]")
"""`table[indices]`, as a line may hold it where no look saw which one it is."""
EXPLAINS = ("dominant-kernel",)


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where adding up the gradient of indexed rows takes long."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("kernels"):
        return no_trace(ID, KERNELS)
    adding = [row for row in facts.rows("kernels") if KERNEL in str(row.get("name"))]
    adding_ns = sum(row.get("total_ns") or 0 for row in adding) / facts.steps
    if facts.rows("operators"):  # the same kernels do what a program itself accumulates by index
        adding_ns = min(adding_ns, _in_gradients_ns(facts))
    if adding_ns < MIN_FRAC * run.step_ns:
        return None
    rows_ns = _rows_ns(facts)
    least = adding_ns - MOST_PASSES * rows_ns if rows_ns else UNKNOWN_FRAC * adding_ns
    most = adding_ns - rows_ns
    saving = Range(*faster_kernels(run, run.step_ns, max(0.0, least), max(0.0, most)))
    if not saving.high:
        return None
    evidence: dict[str, int | float] = {
        "index_backward_ns": round(adding_ns),
        "rows_ns": round(rows_ns),
        "step_ns": run.step_ns,
    }
    seen = function_notes(run.notes)
    looked_up = seen.indexed[:1] if seen is not None else ()
    rows = "rows"
    for one in looked_up:
        rows = f"{one.indices:,} rows, picked out of {one.rows:,},"
        evidence |= {"indices_count": one.indices, "rows_count": one.rows}
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"The gradient of {rows} that are looked up by indexing takes "
        f"{duration(adding_ns)} of each step ({percent(adding_ns / run.step_ns)})",
        advice="Look the rows up with F.embedding (or nn.Embedding): the same values, and its "
        "gradient adds up what belongs to one row in parallel. Indexing (index_put_ with "
        "accumulate=True) adds it one after the other.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.8,
        where=(*_places(run), Where(kernel=str(adding[0]["name"]))),
        change="rows = torch.nn.functional.embedding(indices, table)  # in place of table[indices]",
        explains=EXPLAINS,
    )


def _in_gradients_ns(facts: TraceFacts) -> float:
    nodes = (op for name, op in facts.operators.items() if name.startswith(NODE))
    return sum(op.device_total_ns or 0.0 for op in nodes)


def _rows_ns(facts: TraceFacts) -> float:
    picks = facts.operators.get(PICKS)
    return (picks.device_total_ns or 0.0) if picks is not None else 0.0


def _places(run: RunResults) -> tuple[Where, ...]:
    """Return the lines that index; of older records those that may and were seen most."""
    seen, lines = function_notes(run.notes), host_lines(run.notes)
    if seen is not None and seen.indexed:
        found = [Where.at(at) for one in seen.indexed for at in one.places]
    else:
        every = lines.of(Phase.FORWARD, (None,)) if lines is not None else []
        may = [one for one in every if one.count >= LEAST_COUNT and _INDEXED.search(one.source)]
        found = [Where.at(one) for one in may[:1]]
    # In no phase: the line is in the forward pass, the time in the backward pass.
    return tuple(dict.fromkeys(found))
