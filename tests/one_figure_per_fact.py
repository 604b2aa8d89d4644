"""Reads every figure of a document by name and subject, and finds those that contradict others."""

import math
import re
from collections import defaultdict

from figures_in_sentences import orphans

from lightning_gpuprof.findings.questions import questions
from lightning_gpuprof.findings.usual_advice import USUAL
from lightning_gpuprof.report.document import Bars, Figures, FindingCard, Quantity, Table

ORDER = ("min_ns", "median_ns", "p95_ns", "p99_ns", "max_ns")
"""Keys of order statistics, the smallest first; a mean lies between the first and the last."""
SAME = {"gpu_busy_frac": "busy_frac"}
"""Keys of one fact, by the key that stands for both."""
NO_SHARES = ("diff_frac", "change_frac", "jitter_frac")
"""Fractions that compare, and so may be below zero or above one."""
_CYCLE = re.compile(r"_(\d+)$")


def contradictions(document):
    """Return a sentence for each fact with two figures, and for each figure that cannot be."""
    by_fact = defaultdict(dict)
    for place, key, subject, value in figures_of(document):
        by_fact[key, subject][place] = value
    found = []
    for (key, subject), places in by_fact.items():
        values = list(places.values())
        if not all(_same(values[0], value) for value in values):
            found.append(f"{key} of {subject or 'all'} differs: {places}")
        if key.endswith("_frac") and not key.endswith(NO_SHARES):
            found += [f"{key} is {value}" for value in values if not 0 <= value <= 1 + 1e-6]
    return [
        *found,
        *_out_of_order(document),
        *_advice_with_two_gains(document),
        *_device_times(document),
        *_no_changes(document),
        *orphans(document),
    ]


def figures_of(document):
    """Yield (place, key, subject, value) of each number that has a name of its own."""
    asked = {question.id: question.figure for question in questions()}
    for section in document.sections:
        cycle = _CYCLE.search(section.id)
        of = cycle[1] if cycle else ""
        for part in section.body:
            if isinstance(part, Figures):
                for figure in part.figures:
                    subject = part.title or of
                    yield from _number(section.id, figure.key, subject, figure.value)
            elif isinstance(part, FindingCard):
                for figure in part.evidence:
                    yield from _number(part.id, figure.key, "", figure.value)
            elif isinstance(part, Table) and part.id == "checklist":
                for row in part.rows:
                    yield from _number("checklist", asked[row["id"]], "", row["value"])


def _number(place, key, subject, value):
    if isinstance(value, Quantity):
        value = value.value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place, SAME.get(key, key), subject, value


def _same(one, other):
    return math.isclose(one, other, rel_tol=5e-3, abs_tol=1e-9)


def _out_of_order(document):
    for section in document.sections:
        for part in section.body:
            rows = part.rows if isinstance(part, Table) else ()
            if isinstance(part, Figures):
                rows = ({figure.key: figure.value for figure in part.figures},)
            for row in rows:
                values = [row[key] for key in ORDER if isinstance(row.get(key), (int, float))]
                low, mean, high = (row.get(key) for key in ("min_ns", "mean_ns", "max_ns"))
                if values != sorted(values):
                    yield f"{section.id}: {values} are not in order"
                elif mean is not None and high is not None and not (low or 0) <= mean <= high:
                    yield f"{section.id}: a mean of {mean} among {low} to {high}"


def _advice_with_two_gains(document):
    """Find advice that is called worthless beside the finding that gives it, with a gain."""
    section = document.section("not_worth_it")
    worthless = (
        {figure.label for part in section.body for figure in part.figures} if section else ()
    )
    gaining = {card.id for card in document.findings if card.saving is not None}
    for usual in USUAL:
        if usual.advice in worthless and usual.finding in gaining:
            yield f"{usual.finding} gains, and {usual.advice} does not"


def _device_times(document):
    """Compare the shares of the first device's time with the bars and causes of the same time."""
    shares = {
        key: value for place, key, _, value in figures_of(document) if place == "trace_figures"
    }
    gaps, launching = shares.get("launch_gaps_frac"), shares.get("launch_overhead_frac")
    if gaps is not None and not math.isclose(gaps + shares["busy_frac"], 1, abs_tol=1e-6):
        yield f"busy_frac {shares['busy_frac']} and launch_gaps_frac {gaps} are not all of the time"
    if launching is not None and launching > gaps + 1e-9:
        yield f"launch_overhead_frac {launching} is more than launch_gaps_frac {gaps}"
    bars = [bar for part in document.parts(Bars) if part.id == "device_time" for bar in part.bars]
    for bar in bars:
        if (
            bar.key == "idle"
            and gaps is not None
            and not math.isclose(bar.frac, gaps, abs_tol=1e-6)
        ):
            yield f"idle {bar.frac} is not launch_gaps_frac {gaps}"
    caused = sum(row["total_ns"] for row in document.rows("idle"))
    idle = next((bar.value for bar in bars if bar.key == "idle"), caused)
    if caused and caused != idle:
        yield f"the causes of idle time are {caused} ns of {idle}"


def _no_changes(document):
    """Find rows of the plan that are no change, or that are not the change of their finding."""
    cards = {(card.id, card.short_change, card.difficulty, card.risk) for card in document.findings}
    for row in document.rows("plan"):
        if (row["finding"], row["change"], row["difficulty"], row["risk"]) not in cards:
            yield f"the plan has another change for {row['finding']}"
