"""Writes the suite's results as Markdown. Layout only."""

from collections.abc import Mapping, Sequence
from typing import Any

from score import Said, Verdict, false_alarms


def markdown(
    verdicts: Sequence[Verdict], controls: Mapping[str, Said], totals: Mapping[str, Any]
) -> str:
    return "\n".join([*_totals(totals), "", *_cases(verdicts), "", *_controls(controls), ""])


def _totals(totals: Mapping[str, Any]) -> list[str]:
    cases = totals["case_count"]
    return [
        "| | count | of |",
        "|---|---|---|",
        f"| right finding first | {totals['first_count']} | {cases} |",
        f"| right finding among those said | {totals['named_count']} | {cases} |",
        f"| measured saving inside the predicted interval | {totals['inside_count']} | {cases} |",
        f"| middle of the prediction within 25 % | {totals['near_count']} | {cases} |",
        "| the same of the cases whose measured saving is itself known to 25 % "
        f"| {totals['near_told_count']} | {totals['told_count']} |",
        f"| controls with a false warning | {totals['false_alarm_count']} "
        f"| {totals['control_count']} |",
    ]


def _cases(verdicts: Sequence[Verdict]) -> list[str]:
    head = (
        "| cause | share | step, ms | first finding | right | saving predicted, ms "
        "| saving measured, ms | inside | middle |"
    )
    return [head, "|---" * 9 + "|", *(_row(verdict) for verdict in verdicts)]


def _row(verdict: Verdict) -> str:
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
    return (
        f"| {verdict.case} | {verdict.wanted_frac:.0%} | {_ms(faulty)} | {first} | {right} "
        f"| {span} | {_measured(verdict)} | {inside} | {_middle(verdict)} |"
    )


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
    rows = [
        f"| {name} | {', '.join(false_alarms(said)) or 'none'} "
        f"| {', '.join(one['id'] for one in said) or 'nothing'} |"
        for name, said in controls.items()
    ]
    return ["| control | warnings (all of them false) | everything said |", "|---|---|---|", *rows]


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.2f}"
