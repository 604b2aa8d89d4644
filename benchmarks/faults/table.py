"""Writes the suite's results as Markdown. Layout only."""

from collections.abc import Mapping, Sequence
from typing import Any

from _harness import table
from score import Said, Verdict, false_alarms

AT_SPEED = "scaled to the machine's speed at the measurement"


def markdown(
    verdicts: Sequence[Verdict], controls: Mapping[str, Said], totals: Mapping[str, Any]
) -> str:
    return "\n".join([*_totals(totals), "", *_cases(verdicts), "", *_controls(controls), ""])


def _totals(totals: Mapping[str, Any]) -> list[str]:
    cases = totals["case_count"]
    rows = [
        ("right finding first", "first_count", cases),
        ("right finding among those said", "named_count", cases),
        ("measured saving inside the predicted interval", "inside_count", cases),
        ("middle of the prediction within 25 %", "near_count", cases),
        (f"inside, prediction {AT_SPEED}", "inside_at_speed_count", cases),
        (f"within 25 %, prediction {AT_SPEED}", "near_at_speed_count", cases),
        ("saving known to 25 %", "told_count", cases),
        ("controls with a false warning", "false_alarm_count", totals["control_count"]),
    ]
    counts = ((name, totals[count], of) for name, count, of in rows)
    return [*table(("", "count", "of"), counts), "", *_errors(totals)]


def _errors(totals: Mapping[str, Any]) -> list[str]:
    """Say how far the predicted new step times are from the measured ones."""
    said = []
    for key, how in (("step_error", ""), ("step_error_at_speed", f", {AT_SPEED}")):
        one = totals[key]
        if one["count"]:
            said.append(
                f"Relative error of the predicted new step time{how}: median "
                f"{one['median_frac']:.1%}, 90th percentile {one['p90_frac']:.1%} of "
                f"{one['count']} cases."
            )
    return said


def _cases(verdicts: Sequence[Verdict]) -> list[str]:
    head = ("cause", "share wanted", "saved", "step, ms", "first finding", "right", "predicted, ms",
            "machine", "measured, ms", "inside", "middle")  # fmt: skip
    return table(head, map(_row, verdicts))


def _row(verdict: Verdict) -> tuple[str, ...]:
    faulty = verdict.faulty_ns.median
    first = verdict.said[0]["id"] if verdict.said else "nothing"
    if verdict.first:
        right = "yes"
    elif verdict.rank is None:
        right = "no"
    else:
        right = f"place {verdict.rank + 1}" if verdict.rank else "wrong advice"
    predicted = verdict.predicted_ns
    span = "-" if predicted is None else f"{_ms(predicted[0])} to {_ms(predicted[1])}"
    inside = {True: "yes", False: "no", None: "-"}[verdict.inside]
    shares = f"{verdict.wanted_frac:.0%}", f"{verdict.saved_ns / faulty:.0%}"
    measured = f"x{verdict.slower:.2f}", _measured(verdict), inside, _middle(verdict)
    return verdict.case, *shares, _ms(faulty), first, right, span, *measured


def _measured(verdict: Verdict) -> str:
    error = verdict.saved_error_ns
    return _ms(verdict.saved_ns) + ("" if error is None else f" ± {_ms(error)}")


def _middle(verdict: Verdict) -> str:
    """Say how far the middle was off, and whether the measurement could tell."""
    error = verdict.middle_error_frac
    if error is None:
        return "-"
    return f"{error:+.0%}" + ("" if verdict.told else ", cannot be told")


def _controls(controls: Mapping[str, Said]) -> list[str]:
    rows = (
        (
            name,
            ", ".join(false_alarms(said)) or "none",
            ", ".join(one["id"] for one in said) or "nothing",
        )
        for name, said in controls.items()
    )
    return table(("control", "warnings (all of them false)", "everything said"), rows)


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.2f}"
