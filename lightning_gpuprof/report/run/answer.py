"""The answer of a run's document: what the run is, what holds it back, what to do first."""

from collections.abc import Sequence

from lightning_gpuprof.analysis.chance import MIN_BLOCKS
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.engine import MIN_SAVING_FRAC
from lightning_gpuprof.findings.grade import CRITICAL_FRAC, WARNING_FRAC
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.findings.overlap import UNEXPLAINED
from lightning_gpuprof.findings.questions import Answer, State, first_to_look_at
from lightning_gpuprof.findings.ranking import proposed
from lightning_gpuprof.findings.shares import each_time, lengthening, share_name
from lightning_gpuprof.records.glance import process_lives
from lightning_gpuprof.records.schema import UNTIMED_STEPS
from lightning_gpuprof.report.document import Figure, Figures, Section, Text, Verdict
from lightning_gpuprof.report.finding_cards import brief_certainty, finding_card
from lightning_gpuprof.report.run.limit import busy_figure, host_line, waiting_side
from lightning_gpuprof.units import duration, percent, percents, rate

DOING = {"validate": "validation", "test": "testing", "predict": "prediction"}
"""What a session without training does, by its stage."""
BASES = {"steady": "steady ", "compiled": "compiling ", "all": "warm-up "}
"""Which steps a figure describes, by the basis of `StepStats`."""
TOO_SHORT = "Too short to say what to change"
WAITING = "Waiting for the first steps"
WRITTEN = "Steps are written 50 at a time unless window= says otherwise"
NOT_WRITTEN_YET = (
    f"{WRITTEN}, and the first are not there yet. If the run no longer trains, it was killed "
    "before that."
)
UNTIMED = "Steps were not timed: neither GpuProfCallback nor PhaseTimer was among the callbacks."
FEW_SLOW_STEPS = "slow-steps-share"
UNEXPLAINED_FRAC, USUAL_FRAC = WARNING_FRAC, CRITICAL_FRAC
"""Shares of the run that must not be passed over: those that no finding explains, and all that are
not work on batches."""
MOST_SHARES = 2


def session_line(run: RunResults) -> str:
    """Say what kind of session this is, how it ended and how long it took."""
    status = {"open": "no closing record: live, or killed"}.get(run.status, run.status)
    ranks = f", {run.start.world_size} ranks" if run.start.world_size > 1 else ""
    session = f", session {run.start.session}" if len(run.sessions) > 1 else ""
    count = run.steps.count if run.steps else 0
    steps = "1 step" if count == 1 else f"{count} steps"
    if run.end is not None and any(kind.where == UNTIMED_STEPS for kind in run.outside):
        steps = f"{run.end.steps} steps ({count} timed by phase)"
    if run.span is not None:
        status = run.span.label
    return f"{run.start.stage}{session}, {status}{ranks}, {steps} in {duration(run.wall.wall_ns)}"


def first_finding(run: RunResults, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding whose change is proposed first; None if no change is proposed.

    If there are only warm-up steps, none is, because later steps may differ.
    """
    warm_up = run.steps is not None and run.steps.basis == "all"
    return None if warm_up or not run.step_ns else proposed(findings)


def headline_section(run: RunResults, answers: Sequence[Answer]) -> Section | None:
    """Return the step's time, how busy the GPU is, and what limits the steps."""
    parts: list[Figures | Text] = []
    if run.steps is not None and run.step_ns:
        step = Figure("step_ns", "Step time", run.step_ns, "ns", _step_note(run))
        busy = busy_figure(run)
        parts.append(Figures((step,) if busy is None else (step, busy), large=True))
    if (divided := host_line(run)) is not None:
        parts.append(Text((divided,), "strong"))
    slow = any(answer.id == FEW_SLOW_STEPS and answer.state is State.LOOK for answer in answers)
    if parts and slow:
        parts.append(Text(("A few slow steps take most of the time.",), "note"))
    return Section("headline", "", "first", tuple(parts)) if parts else None


def _step_note(run: RunResults) -> str:
    """Say which steps the mean describes, and give the median and the samples per second.

    The mean is the large figure because phases and savings are shares of it. It is on the device's
    clock if the host queued steps faster than the device ran them.
    """
    steps = run.steps
    assert steps is not None
    count = steps.dur.count
    basis, median = BASES.get(steps.basis, ""), f"median {duration(steps.dur.p50_ns)}"
    of, on_host = (
        f"mean of {count:,} {basis}steps",
        f"the host's mean {duration(steps.dur.mean_ns)}",
    )
    texts = [of, median]
    if count == 1:
        of, on_host = f"1 {basis}step", f"the host's {duration(steps.dur.mean_ns)}"
        texts = [of]
    if (run.step_ns or 0) > steps.dur.mean_ns:
        texts = [f"{of}, by the device's clock", on_host]
        if count > 1:
            texts[-1] += f", {median}"
    if run.samples_per_s:
        texts.append(f"{rate(run.samples_per_s)} samples/s")
    return "; ".join(texts)


def verdict(
    run: RunResults,
    findings: Sequence[Finding],
    answers: Sequence[Answer],
) -> Verdict:
    """Decide what holds the run back and what to do first, or why nothing is proposed."""
    if run.steps is None or not run.step_ns:
        return _no_steps(run)
    doing = DOING.get(run.start.stage)
    again = " to judge." if doing else ": train longer and look again."
    if run.steps.basis == "all":
        sentence = f"Only warm-up steps were recorded, too few{again}"
        return Verdict("too_short", "Verdict", TOO_SHORT, sentence)
    first = first_finding(run, findings)
    if first is not None:
        return change_verdict(first, run)
    count = run.steps.dur.count
    if count < MIN_BLOCKS:
        steps = "1 steady step is" if count == 1 else f"{count} steady steps are"
        return Verdict("too_short", "Verdict", TOO_SHORT, f"{steps} too few{again}")
    certain = _largest_certain(findings, run.step_ns)
    if (rest := unexplained_verdict(run, findings)) is not None:
        return rest
    if (side := waiting_side(run, findings)) is not None:
        return Verdict("limit", "Verdict", side[0], f"{side[1]}{certain}")
    look = first_to_look_at(answers)
    sentence = f"What was found is small, usual, or not certain to save time.{certain}"
    if look is not None:
        sentence += f" Where to look next: {look.next}."
    sentence += _once(run)
    return Verdict(
        "nothing", "Verdict", f"Nothing here holds {doing or 'training'} back much", sentence
    )


def unexplained_verdict(run: RunResults, findings: Sequence[Finding]) -> Verdict | None:
    """Return the verdict on a run of which much is not work on batches; None if little is.

    Much is `UNEXPLAINED_FRAC` of the run in shares that no finding explains, or `USUAL_FRAC` in
    all shares.
    """
    account, steps, shares = run.account, run.steps, lengthening(run)
    if account is None or steps is None or run.start.stage != "fit":
        return None
    unexplained = [finding for finding in findings if finding.id == UNEXPLAINED]
    unexplained_frac = sum(finding.evidence["run_frac"] for finding in unexplained)
    frac = account.frac(sum(share.total_ns for share in shares))
    if unexplained_frac < UNEXPLAINED_FRAC and frac < USUAL_FRAC:
        return None
    longest = "; ".join(
        f"{share_name(share)} {percent(account.frac(share.total_ns))} "
        f"({each_time(share, steps.ran)})"
        for share in shares[:MOST_SHARES]
    )
    first = next(iter(unexplained), None)
    advice = "How much of it can go is not certain." if first is None else first.advice
    return Verdict(
        "limit",
        "Verdict",
        f"{percent(frac)} of the run is not work on batches",
        f"The longest: {longest}. {advice}",
        finding=None if first is None else first.id,
    )


def _once(run: RunResults) -> str:
    """Say how much of a short run was work that is done once; empty if that was little."""
    account = run.account
    if account is None or account.frac(account.once_ns) < USUAL_FRAC:
        return ""
    return f" {percent(account.frac(account.once_ns))} of this run was done only once."


def change_verdict(finding: Finding, run: RunResults) -> Verdict:
    """Return the verdict that proposes a finding's change."""
    card = finding_card(finding, run)
    saving = card.saving
    return Verdict(
        "change",
        "Fix first",
        finding.title,
        finding.advice,
        finding=finding.id,
        change=card.short_change if card.short_change_is_code else None,
        place=next((place for place in card.places if place.file is not None), None),
        gain=f"{saving.outcome}, {brief_certainty(finding)}" if saving is not None else None,
        gain_short=saving.short if saving is not None else None,
    )


def _no_steps(run: RunResults) -> Verdict:
    stage = run.start.stage
    step = "batch" if stage in DOING else "training step"
    title = f"No {step} was recorded"
    lives = process_lives(run.start)
    if run.status == "open" and lives:
        return Verdict("not_measured", "Verdict", WAITING, f"{WRITTEN}.")
    if run.status == "open" and lives is None:
        sentence = NOT_WRITTEN_YET
    elif run.start.timer or run.status == "exception":
        sentence = f"This {stage} session ended before it wrote its first window of steps."
    else:
        sentence = UNTIMED
    return Verdict("not_measured", "Verdict", title, sentence)


def _largest_certain(findings: Sequence[Finding], step_ns: int) -> str:
    certain = [
        finding for finding in findings if finding.saving_ns.low >= MIN_SAVING_FRAC * step_ns
    ]
    if not certain:
        return ""
    low, high = (bound / step_ns for bound in (certain[0].saving_ns.low, certain[0].saving_ns.high))
    return f" The largest gain that is certain is {certain[0].id} ({percents(low, high)})."
