"""A single expensive operation takes much of the step, and there is a cheaper way to its result.

## What it measures
`operators_ns`: time per step of operators of one family, from a trace, with the nodes of the
autograd graph that go back through them: full sorts; decompositions and solves of matrices. On a
GPU the device's time of the operators alone.

## Why it matters
A sort puts in order what a threshold or a `topk` only has to pick from. A decomposition takes many
times as long as a product of such matrices, and thousands of small ones cost by their number.

## What to do
Of sorted values, keep the few largest by `topk`, one rank by `kthvalue`, those above a threshold by
a mask; unique rows are quicker found as numbers. An optimizer's preconditioners change slowly:
factors or roots of them in one step of many are enough, and an orthogonal update is a few
Newton-Schulz iterations. In a model, a diagonal matrix needs no decomposition
(`Independent(Normal(...), 1)` in place of a `MultivariateNormal`), one that is known by its factor
none either (`scale_tril`, `solve_triangular`, `cholesky_solve`).

## Thresholds
`MIN_FRAC`: twice `WARNING_FRAC` of `findings/grade.py`. What the other way takes is not known, so
nothing is the least saving, and of less the middle would not be worth a change. In an optimizer the
least change is one step in `FEWER`; there no more than its median counts, as a trace may hold the
one step in many that decomposes. Left to rules that know more of the same lines: `rebuilt-weights`,
`recomputed-constant`, `repeated-operators`, `work-on-data`. Severity: the common scale
(`findings/grade.py`); in a model at most a warning, for the operation may be what it is about.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import CRITICAL_FRAC, FEWER, WARNING_FRAC, by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Severity, Where
from lightning_gpuprof.findings.no_trace import OPERATORS, no_trace
from lightning_gpuprof.findings.places import in_forward, written_as
from lightning_gpuprof.records.function_calls import (
    ConstantWork,
    RepeatedWork,
    WorkOnData,
    function_notes,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "costly-operators"
EFFORT = Effort(
    Horizon.MEDIUM,
    "one operation is replaced by another, or done in one step of many",
    "results may differ: compare the losses",
)
MIN_FRAC = 2 * WARNING_FRAC
EXPLAINS = ("dominant-kernel",)
BESIDE = (Phase.CALLBACKS, Phase.LOGGING, Phase.VALIDATION, Phase.OTHER)
"""Phases whose own lines may be what calls an operator that no line of the forward pass does."""
KNOWN_FRAC = 0.5
"""A rule that knows the reason of half of it, or an optimizer's step of which it is half."""


class Family(NamedTuple):
    """Operators that the same is to be done about.

    `operators` are called in no other one of them, so that none is counted twice; `nodes` are how
    the engine names their nodes; `written` is what a line that calls one may hold.
    """

    what: str
    operators: tuple[str, ...]
    nodes: tuple[str, ...]
    written: str
    advice: str


SORTS = Family(
    "Sorting",
    ("aten::sort", "aten::unique_dim"),
    ("SortBackward", "MsortBackward"),
    r"\b(sort|argsort|msort|unique\w*|(nan)?quantile)\(",
    "Where the order itself is not needed, do not sort: the few largest are x.topk(k, "
    "sorted=False), a quantile or a median is x.kthvalue(k), and those above a threshold are a "
    "mask. For unique rows make one number of each row first. Sort what stays the same once.",
)
MATRICES = Family(
    "Decomposing matrices and solving with them",
    tuple(
        f"aten::{name}"
        for name in """_linalg_eigh linalg_eig linalg_cholesky_ex linalg_lu_factor_ex
        linalg_lu_solve linalg_ldl_factor_ex linalg_solve_triangular triangular_solve _linalg_svd
        linalg_qr linalg_householder_product linalg_lstsq linalg_matrix_exp cholesky_inverse
        _cholesky_solve_helper""".split()
    ),
    tuple(
        f"{name}Backward"
        for name in """LinalgEigh LinalgEig LinalgCholeskyEx LinalgLuFactorEx LinalgLuSolve
        LinalgLdlFactorEx LinalgSolveTriangular TriangularSolve LinalgSvd LinalgQr
        LinalgHouseholderProduct LinalgLstsq LinalgMatrixExp LinalgInvEx LinalgSolveEx LinalgDet
        LinalgSlogdet LinalgLu LinalgPinv CholeskyInverse CholeskySolve""".split()
    ),
    r"linalg\.|MultivariateNormal|\b(inverse|pinverse|cholesky\w*|svd|qr|eigh|(slog|log)?det|"
    r"matrix_exp|lu\w*|lstsq|logdet)\(",
    "A diagonal matrix needs no decomposition, one that changes slowly needs it in one step of "
    "many. Solve with a factor (cholesky, lu_factor), triangular where it is, not with an inverse; "
    "one factor serves all solves. Small matrices cost by their number: factor none twice.",
)
FAMILIES = (SORTS, MATRICES)
NORMAL = "MultivariateNormal"
NORMAL_ADVICE = (
    "MultivariateNormal factors a covariance for each row, and solves with it. If the dimensions "
    "are independent, Independent(Normal(mean, spread), 1) is the same without matrices; else "
    "give it the factor (scale_tril=...) in place of the covariance."
)
NORMAL_CHANGE = "Independent(Normal(mean, spread), 1)  # in place of MultivariateNormal(mean, ...)"
UPDATE_ADVICE = (
    "What an optimizer decomposes are as a rule sums over many steps: do it in one step of 10 to "
    "100, and keep its result in the state between. To make an update orthogonal, a few "
    "Newton-Schulz iterations (products of matrices) do."
)
ITERATED = ("aten::_linalg_svd", "aten::linalg_qr", "aten::linalg_householder_product")
"""What may be of the step's own gradient: then it cannot be kept, and another way has its price."""


class Cost(NamedTuple):
    """Time per step of a family's operators, by where they are called."""

    forward_ns: int
    backward_ns: int
    update_ns: int
    most: Operator
    """The one that takes longest."""

    @property
    def model_ns(self) -> int:
        """All but the optimizer's."""
        return self.forward_ns + self.backward_ns


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained:
    """Return a finding for each family, of the model and of the optimizer."""
    facts = trace_facts(run)
    if facts is None or not run.step_ns:
        return no_trace(ID, OPERATORS)
    found: list[Finding | None] = []
    for family in FAMILIES:
        cost = _cost(run, facts, family)
        if cost is not None:
            found += [
                _in_model(run, run.step_ns, family, cost),
                _in_update(run, run.step_ns, family, cost),
            ]
    return tuple(one for one in found if one is not None)


def _cost(run: RunResults, facts: TraceFacts, family: Family) -> Cost | None:
    operators = facts.operators
    used = [operators[name] for name in family.operators if name in operators]
    if not used:
        return None
    most = max(used, key=lambda op: op.total_ns)
    if run.on_gpu:
        updating = [op for op in used if 2 * op.update_calls > op.calls]
        others = [op for op in used if op not in updating]
        return Cost(_device_ns(others), 0, _device_ns(updating), most)
    nodes = tuple(f"autograd::engine::evaluate_function: {name}" for name in family.nodes)
    back = sum(op.total_ns for name, op in operators.items() if name.startswith(nodes))
    updates = sum(op.update_self_ns for op in used)
    return Cost(
        _within(run, Phase.FORWARD, sum(map(_forward_ns, used))),
        _within(run, Phase.BACKWARD, back),
        _within(run, Phase.OPTIMIZER_STEP, updates),
        most,
    )


def _device_ns(ops: Iterable[Operator]) -> int:
    return round(sum(op.device_total_ns or 0.0 for op in ops))


def _forward_ns(op: Operator) -> float:
    """Return an operator's time outside the graph's nodes and the optimizer's update."""
    others = max(0.0, op.calls - op.backward_calls)
    share = max(0.0, others - op.update_calls) / others if others else 0.0
    return max(0.0, op.total_ns - op.backward_ns) * share


def _within(run: RunResults, phase: Phase, taken_ns: float) -> int:
    """Return no more than the median of a phase: one traced step may be unlike most."""
    stats = run.per_step(phase)
    return round(taken_ns if stats is None else min(taken_ns, stats.median_ns))


def _in_model(run: RunResults, step_ns: int, family: Family, cost: Cost) -> Finding | None:
    lines = written_as(run, Phase.FORWARD, family.written)
    if not lines and any(written_as(run, phase, family.written) for phase in BESIDE):
        return None  # a trace does not tell a callback's operators from the forward pass's
    if cost.model_ns < MIN_FRAC * step_ns or _known(run, step_ns, lines, family, cost):
        return None
    normal = family is MATRICES and any(NORMAL in one.source for one in lines)
    # The check of a covariance, and what makes it, go with its factor.
    whole_ns = 0
    if normal and not run.on_gpu:
        whole_ns = _sampled_ns(run, Phase.FORWARD, lambda one: NORMAL in one.source)
    most_ns = max(cost.forward_ns, whole_ns) + cost.backward_ns
    saving = by_host(0, around(most_ns)[1], step_ns, unsure=True)
    severity = grade(saving, step_ns)
    return Finding(
        id=ID,
        severity=Severity.WARNING if severity is Severity.CRITICAL else severity,
        title=f"{family.what} takes {duration(cost.model_ns)} of each step "
        f"({percent(cost.model_ns / step_ns)}), with the backward pass through it",
        advice=NORMAL_ADVICE if normal else family.advice,
        evidence={
            "operators_ns": cost.model_ns,
            "backward_ns": cost.backward_ns,
            "calls_count": round(cost.most.calls),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.6,
        where=in_forward(lines) or (Where(name=cost.most.name),),
        change=NORMAL_CHANGE if normal else None,
        # Of two that take over half of a step each one is part of the other.
        explains=EXPLAINS if run.on_gpu and cost.model_ns >= KNOWN_FRAC * step_ns else (),
    )


def _in_update(run: RunResults, step_ns: int, family: Family, cost: Cost) -> Finding | None:
    step = run.per_step(Phase.OPTIMIZER_STEP)
    if step is None or cost.update_ns < MIN_FRAC * step_ns:
        return None
    optimizers = run.start.model.get("optimizers") or [{}]
    own = (one for one in optimizers if one.get("package", "torch") != "torch")
    name = next(own, optimizers[0]).get("class")
    sure = family is MATRICES and cost.most.name not in ITERATED
    low = around(cost.update_ns * (FEWER - 1) // FEWER)[0]
    high = max(around(cost.update_ns)[1], _functions_ns(run, family))
    saving = by_host(low, min(high, step.mean_ns), step_ns, unsure=run.on_gpu or not sure)
    whole = cost.update_ns >= KNOWN_FRAC * step.median_ns
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{family.what} takes {duration(cost.update_ns)} of each step "
        f"({percent(cost.update_ns / step_ns)}) in the step of {name or 'the optimizer'}",
        advice=UPDATE_ADVICE if family is MATRICES else family.advice,
        evidence={
            "operators_ns": cost.update_ns,
            "optimizer_ns": step.mean_ns,
            "calls_count": round(cost.most.update_calls),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.7,
        where=(Where(phase=Phase.OPTIMIZER_STEP.value, name=name),),
        explains=("unfused-optimizer",) if whole else (),
    )


def _functions_ns(run: RunResults, family: Family) -> int:
    """Return what an optimizer's functions with a line of the family take."""
    lines = written_as(run, Phase.OPTIMIZER_STEP, family.written)
    functions = {(one.file, one.function) for one in lines}
    return _sampled_ns(run, Phase.OPTIMIZER_STEP, lambda one: (one.file, one.function) in functions)


def _sampled_ns(run: RunResults, phase: Phase, at: Callable[[LineCount], bool]) -> int:
    """Return the part of a phase at some lines, by samples; 0 without any."""
    seen, stats = host_lines(run.notes), run.per_step(phase)
    if seen is None or stats is None:
        return 0
    count = sum(one.count for one in seen.of(phase) if at(one))
    return round(stats.median_ns * count / max(1, seen.by_phase.get(phase.value, 0)))


def _known(
    run: RunResults, step_ns: int, lines: Iterable[LineCount], family: Family, cost: Cost
) -> bool:
    """Tell whether a look at the forward pass knows a reason of most of it."""
    seen = function_notes(run.notes)
    if seen is None:
        return False
    at = {(one.file, one.line) for one in lines}
    on_data = (one for one in seen.on_data if one.taken_ns >= CRITICAL_FRAC * step_ns)
    told: tuple[ConstantWork | RepeatedWork | WorkOnData, ...]
    told = (*seen.constants, *seen.repeated, *on_data)
    known = [
        one.taken_ns for one in told if any((place.file, place.line) in at for place in one.places)
    ]
    if family is MATRICES and seen.rebuilt is not None:
        known.append(seen.rebuilt.again_ns)
    return bool(known) and max(known) >= KNOWN_FRAC * cost.forward_ns
