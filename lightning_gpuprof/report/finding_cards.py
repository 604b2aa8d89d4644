"""Turns findings into cards of a document, with the saving and the change in words."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.conformal import Coverage
from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.findings.engine import MIN_SAVING_FRAC, step_of
from lightning_gpuprof.findings.model import Finding, When
from lightning_gpuprof.findings.model import Place as FindingPlace
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.findings.trial_commands import command_line
from lightning_gpuprof.report.document import (
    Figure,
    FindingCard,
    Interval,
    Place,
    Saving,
    TrialCommand,
    Unit,
)
from lightning_gpuprof.units import duration, inside, interval_text, percents, shortened

NAME_WIDTH = 52
MAX_ADVICE_WIDTH = 200
PAGE = "docs/findings.md"
_UNITS: tuple[tuple[str, Unit], ...] = (
    ("_ns", "ns"),
    ("_bytes_per_s", "bytes_per_s"),
    ("_bytes", "bytes"),
    ("_frac", "frac"),
    ("_per_s", "per_s"),
    ("_count", "count"),
)


def finding_card(finding: Finding, run: RunResults, *, run_dir: str | None = None) -> FindingCard:
    """Return the card of a finding; its saving is given as a share of a step of `run`.

    `run_dir` is the folder of the run, to which a trial adds its result.
    """
    rule = rules().get(finding.id)
    effort = finding.effort or (rule.effort if rule is not None else None)
    short, is_code = short_change(finding.change, finding.advice)
    return FindingCard(
        id=finding.id,
        severity=finding.severity.value,  # type: ignore[arg-type] # graded by the engine
        title=finding.title,
        advice=finding.advice,
        change=finding.change,
        short_change=short,
        short_change_is_code=is_code,
        saving=_saving(finding, run) if finding.saving_ns.high else None,
        no_saving=_no_saving(finding),
        evidence=tuple(evidence_figure(key, value) for key, value in finding.evidence.items()),
        places=tuple(place_of(place, finding.id) for place in finding.places),
        confidence=finding.confidence,
        view=_view(FindingPlace(), finding.id),
        horizon=effort.horizon.value if effort is not None else "",
        difficulty=effort.difficulty if effort is not None else "",
        risk=effort.risk if effort is not None else "",
        page=f"{PAGE}#{finding.id}",
        trial=_trial(finding, run, run_dir),
    )


def _trial(finding: Finding, run: RunResults, run_dir: str | None) -> TrialCommand | None:
    if finding.trial is None:
        return None
    command = command_line(finding.trial, run_dir=run_dir, program=run.start.program)
    return TrialCommand(note=finding.trial.note, command=command)


def short_change(change: str | None, advice: str) -> tuple[str, bool]:
    r"""Return a change in one line, and whether it is code.

    It is the first line of the code. If there is no code, or that line only begins a block, it is
    the first sentence of the advice.

    >>> short_change("# in train.py\nloader.num_workers = 4", "Use more workers.")
    ('loader.num_workers = 4', True)
    >>> short_change(None, "Pin the batch's memory. It is pageable, so copies are slow.")
    ("Pin the batch's memory", False)
    >>> short_change("if step % 50 == 0:\n    draw()", "Draw once in 50 steps.")
    ('Draw once in 50 steps', False)
    """
    for line in (change or "").splitlines():
        if line.strip() and not line.strip().startswith("#"):
            if line.rstrip().endswith(":"):
                break
            return line.strip(), True
    return shortened(advice.partition(". ")[0].removesuffix("."), MAX_ADVICE_WIDTH), False


def certainty(finding: Finding) -> str:
    """Say whether a saving was measured, and otherwise how sure the rule and the interval are."""
    if finding.measured:
        return f"measured ({finding.measured})"
    tested = "interval not tested"
    if finding.coverage is not None:
        tested = _tested(finding.coverage)
    return f"{finding.confidence:.0%} sure of the cause, {tested}"


def brief_certainty(finding: Finding) -> str:
    """Say in a few words whether a saving was measured, or how often such estimates held."""
    if finding.measured:
        return certainty(finding)
    if finding.coverage is None:
        return "not tested"
    return _tested(finding.coverage)


def _tested(coverage: Coverage) -> str:
    quieter = ", on quieter machines" if coverage.busier else ""
    return f"{_in_ten(coverage)} such estimates held{quieter}"


def _in_ten(coverage: Coverage) -> str:
    """Give a share in tenths, never all of them.

    >>> _in_ten(Coverage(held=37, count=41, pooled=False))
    '9 in 10'
    """
    return f"{min(9, round(10 * coverage.frac))} in 10"


def _basis(finding: Finding) -> str | None:
    """Say by which measured changes an interval was tested; None if the saving was measured."""
    if finding.measured:
        return None
    if (coverage := finding.coverage) is None:
        return (
            "The interval is the model's: no such change was ever measured on such a device, or "
            "none that saves as little."
        )
    of_kinds = ", of all kinds together," if coverage.pooled else " of this kind"
    return (
        f"{coverage.held} of {coverage.count} measured changes{of_kinds} lay in intervals that "
        "were made like this one."
    )


def evidence_figure(key: str, value: float) -> Figure:
    """Return a number of the evidence, with its label and the unit in which its key ends.

    >>> evidence_figure("data_wait_ns", 5)
    Figure(key='data_wait_ns', label='data wait', value=5, unit='ns', note=None)
    """
    label, unit = labelled(key)
    return Figure(key, label, value, unit)


def labelled(key: str) -> tuple[str, Unit]:
    """Return a label for a key, and the unit in which the key ends.

    >>> labelled("slow_steps_share_frac"), labelled("world_size")
    (('slow steps share', 'frac'), ('world size', 'number'))
    """
    for ending, unit in _UNITS:
        if key.endswith(ending):
            return key.removesuffix(ending).replace("_", " "), unit
    return key.replace("_", " "), "number"


def place_of(place: FindingPlace, finding_id: str = "") -> Place:
    """Return a finding's place with a readable name and the view that shows it."""
    name = place.name
    if name is None and place.kernel is not None:
        name = short_kernel(place.kernel)
    return Place(
        file=place.file,
        line=place.line,
        source=place.source,
        phase=place.phase,
        rank=place.rank,
        kernel=place.kernel,
        name=name,
        view=_view(place, finding_id),
    )


def short_kernel(kernel: str) -> str:
    """Return a kernel's name without its type and parameters, in `NAME_WIDTH` characters."""
    name = kernel_name(kernel)
    return name if len(name) <= NAME_WIDTH else shortened(name.partition("<")[0], NAME_WIDTH)


def _view(place: FindingPlace, finding_id: str) -> str | None:
    if place.rank is not None:
        return "ranks"
    if "memory" in finding_id or "vram" in finding_id:
        return "memory"
    if "sync" in finding_id:
        return "timeline"
    if place.kernel is not None or "::" in (place.name or ""):
        return "operators"
    return "steps" if place.phase is not None and place.file is None else None


def _saving(finding: Finding, run: RunResults) -> Saving:
    saving, cause = finding.saving_ns, finding.cause_ns
    in_steps = finding.when is When.IN_STEPS
    base_ns = step_of(finding, run)
    frac = None
    if base_ns:
        frac = Interval(saving.low / base_ns, saving.high / base_ns)
    step_ns = base_ns if in_steps else run.step_ns
    after = None
    if step_ns and in_steps:
        after = Interval(step_ns - saving.high, step_ns - saving.low)
    time = interval_text(saving.low, saving.high)
    return Saving(
        low_ns=saving.low,
        high_ns=saving.high,
        likely_ns=finding.likely_ns,
        frac=frac,
        step_after_ns=after,
        when=finding.when.value,
        confidence=finding.confidence,
        measured=finding.measured,
        coverage_frac=finding.coverage.frac if finding.coverage is not None else None,
        basis=_basis(finding),
        sentence=_sentence(finding, frac, base_ns),
        short=percents(frac.low, frac.high) if frac is not None and in_steps else time,
        outcome=_outcome(finding, step_ns, after),
        indirect_ns=finding.indirect_ns,
        cause_low_ns=cause.low if cause is not None else None,
        cause_high_ns=cause.high if cause is not None else None,
    )


def _sentence(finding: Finding, frac: Interval | None, base_ns: int | None) -> str:
    saving = finding.saving_ns
    share = more = ""
    if frac is not None and base_ns:
        of_run = "" if finding.when is When.IN_STEPS else " of the run"
        share = f" ({percents(frac.low, frac.high)}{of_run})"
        if finding.indirect_ns >= MIN_SAVING_FRAC * base_ns and not finding.measured:
            more = f", indirectly {interval_text(0, finding.indirect_ns)} more"
    if finding.cause_ns is not None and finding.beyond_ns > MIN_SAVING_FRAC * (base_ns or 0):
        more = f"; the cause itself takes {duration(finding.cause_ns.high)}"
    time = interval_text(saving.low, saving.high)
    return f"saves {time} per step{share}{more}, {certainty(finding)}"


def _outcome(finding: Finding, step_ns: int | None, after: Interval | None) -> str:
    saving = finding.saving_ns
    if step_ns is None or after is None:
        less = f"{interval_text(saving.low, saving.high)} less per step on average"
        return less if step_ns is None else f"{less} (a steady step: {duration(step_ns)})"
    likely = inside(step_ns - finding.likely_ns, after.low, after.high)
    band = interval_text(after.low, after.high)
    if finding.of_step_ns:
        return f"{likely} per step ({band}) instead of the {duration(step_ns)} that it takes by now"
    return f"a step of {likely} ({band}) instead of {duration(step_ns)}"


def _no_saving(finding: Finding) -> str:
    if finding.measured and not finding.saving_ns.high:
        return f"measured ({finding.measured}): it saves nothing"
    return "no time is claimed as saved"
