"""What `try` measured, as a page of text."""

from collections.abc import Iterator

from lightning_gpuprof.records.trials import FASTER, Side, Trial, Trials
from lightning_gpuprof.units import duration, interval_text, percent, rate, size
from lightning_gpuprof.views.text.blocks import aligned

_HEADER = (
    "change", "step", "before", "gain (95 %)", "samples/s", "memory", "first step", "losses", "",
)  # fmt: skip


def trials_lines(trials: Trials) -> Iterator[str]:
    """Yield the trials as a table, what was not run, and what to change."""
    whole = trials.combination
    measured = [one for one in (*trials.trials, whole) if one is not None and one.after is not None]
    yield f"Tried on {trials.program}, in {trials.seconds:.0f} s"
    if measured:
        rows = [_row("as it is", measured[0].before, None)]
        rows += [_row(one.name, one.after, one) for one in measured]
        yield from ("", *aligned([_HEADER, *rows], left=(0, 7, 8)), "")
    for one in trials.trials:
        yield from (f"- {one.name}: {remark}" for remark in _remarks(one))
    yield from (f"note: {note}" for note in trials.notes)
    if trials.paste and whole is not None:
        yield f"\nTO CHANGE (measured together: {percent(whole.gain_frac or 0.0)} less per step)"
        yield from (f"  {line}" for line in trials.paste.splitlines())
    else:
        yield "\nNo change gains for sure without altering results: leave it as it is."


def _remarks(one: Trial) -> Iterator[str]:
    if one.predicted_ns is not None and one.gain_ns is not None:
        saved = interval_text(*one.gain_ns) if one.verdict == FASTER else one.verdict
        yield f"predicted {interval_text(*one.predicted_ns)}, measured: {saved}"
    elif one.computed:
        yield f"{percent(one.gain_frac or 0.0)} less, by the run's own figures; {one.alters}"
    elif one.after is None:
        yield f"{one.verdict}: {one.note}"
    if one.break_even_step is not None:
        yield f"its first step is made good by step {one.break_even_step:,}"


def _row(name: str, side: Side | None, trial: Trial | None) -> tuple[str, ...]:
    side = side or Side(0)
    gain = remark = ""
    if trial is not None and trial.low_frac is not None and trial.high_frac is not None:
        bounds = f"{trial.low_frac * 100:.1f} to {trial.high_frac * 100:.1f}"
        gain = f"{percent(trial.gain_frac or 0.0)} ({bounds})"
        remarks = (trial.verdict, "the most that data can give" if trial.ceiling else trial.alters)
        remark = "; ".join(word for word in remarks if word and word != FASTER)
    return (
        name,
        duration(side.step_ns),
        duration(trial.before.step_ns) if trial and trial.before else "",
        gain,
        rate(side.samples_per_s) if side.samples_per_s else "",
        size(side.memory_bytes) if side.memory_bytes else "",
        duration(side.first_step_ns) if side.first_step_ns else "",
        trial.losses if trial else "",
        remark,
    )
