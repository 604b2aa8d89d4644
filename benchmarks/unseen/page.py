"""The results of `run.py` as a page, and the counts that its head names."""

from typing import Any

from judged import RIGHT_AFTER_ALL

ALARMS = ("warning", "critical")
FIRST_LINES = 3


def judged(name: str, entry: dict[str, Any], which: str) -> dict[str, Any] | None:
    """Hold what a report said first of a slow program against what its author had written down."""
    seen = entry.get(which)
    if seen is None or entry["cause"] is None:
        return None
    first = seen["findings"][0] if seen["findings"] else None
    result: dict[str, Any] = {"first": first, "right": first is not None and right(entry, first)}
    pairs = entry.get("pairs")
    owned = first is not None and RIGHT_AFTER_ALL.get(name, {}).get("finding") == first["id"]
    result["owned"] = owned and not result["right"]
    if pairs and (result["right"] or owned) and same_pace(seen, pairs):
        low, high = first["saving_ms"]
        middle, measured = (low + high) / 2, saving_ms(pairs)
        result |= {
            "inside": low <= measured <= high,
            "close": abs(middle - measured) <= 0.25 * abs(measured),
        }
    return result


def right(entry: dict[str, Any], finding: dict[str, Any]) -> bool:
    """Whether a finding is one that helps: by its id, or, where the author said so, by its line."""
    return finding["id"] in entry["accept"] or (
        "@line" in entry["accept"] and finding["line_right"] is True
    )


def same_pace(seen: dict[str, Any], pairs: dict[str, Any]) -> bool:
    """Whether look and pairs met the same machine: milliseconds of a busy one save others."""
    slow_ms = sum(pairs["slow_ms"]) / len(pairs["slow_ms"])
    return max(seen["step_ms"], slow_ms) <= 2 * min(seen["step_ms"], slow_ms)


def saving_ms(pairs: dict[str, Any]) -> float:
    """Return the measured saving: mean of the slow runs less mean of the fixed ones."""
    slow, fixed = pairs["slow_ms"], pairs["fixed_ms"]
    return sum(slow) / len(slow) - sum(fixed) / len(fixed)


def counts(cases: dict[str, Any], which: str) -> str:
    """Return the counts of one look in a sentence."""
    slow = [r for name, entry in cases.items() if (r := judged(name, entry, which))]
    alarms = [bool(false_alarms(e, which)) for e in cases.values() if not e["cause"] and which in e]
    with_id = [r for r in slow if r["right"]]
    timed = [r for r in with_id if "inside" in r]
    lines = [r["first"]["line_right"] for r in with_id]
    return (
        f"right finding first in {len(with_id)} of {len(slow)}; of these its first line was right "
        f"in {lines.count(True)}, wrong in {lines.count(False)}, not given in {lines.count(None)};"
        f" measured saving inside the interval in {sum(r['inside'] for r in timed)} of "
        f"{len(timed)}, the middle within 25 % in {sum(r['close'] for r in timed)}; "
        f"{sum(alarms)} of {len(alarms)} clean programs got a warning"
    )


def after_all(cases: dict[str, Any], which: str) -> str:
    """Return how many more were right, by their author's later judgement, and in what."""
    more = [n for n, e in cases.items() if (result := judged(n, e, which)) and result["owned"]]
    return f"{len(more)} more named the cause by an id that the author had not listed" + (
        f" ({', '.join(more)})" if more else ""
    )


def false_alarms(entry: dict[str, Any], which: str) -> list[dict[str, Any]]:
    """Return what a report said of a clean program at severity warning or higher."""
    return [f for f in entry.get(which, {}).get("findings", []) if f["severity"] in ALARMS]


def page(cases: dict[str, Any]) -> str:
    """Return the page."""
    in_words = any("words" in entry for entry in cases.values())
    head = _HEAD + _BY_WORDS if in_words else _HEAD
    lines = ["# Programs that the rules had not seen", "", head, ""]
    looked = {n: e["first_look"]["commit"] for n, e in cases.items() if "first_look" in e}
    for commit in dict.fromkeys(looked.values()):
        some = {n: e for n, e in cases.items() if looked.get(n) == commit}
        lines += [
            f"**First look** (out of sample), by the rules of {commit}: "
            f"{counts(some, 'first_look')}; {after_all(some, 'first_look')}.",
            "",
        ]
    if any("after" in entry for entry in cases.values()):
        newest = {n: {**e, "now": e.get("after", e.get("first_look"))} for n, e in cases.items()}
        newest = {n: e for n, e in newest.items() if e["now"]}
        lines += [
            "**After** the rules were mended with these programs' reports at hand (in sample): "
            f"{counts(newest, 'now')}; {after_all(newest, 'now')}. " + _recorded(newest),
            "",
        ]
    if ranks := [e["line_rank"] for e in cases.values() if "line_rank" in e]:
        first = sum(rank is not None and rank <= FIRST_LINES for rank in ranks)
        lines += [
            "The report's table of lines, which no rule has a part in, has a line of the cause "
            f"among its first {FIRST_LINES} in {first} of {len(ranks)}.",
            "",
        ]
    lines += [
        "| program | accepted | first finding | right | line | step ms | predicted ms "
        "| measured ms | inside | middle |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for which in ("first_look", "after"):
        lines += [_row(n, e, which) for n, e in cases.items() if judged(n, e, which)]
    lines += ["", "| clean program | findings (severity) |", "|---|---|"]
    for name, entry in cases.items():
        for which in ("first_look", "after"):
            if not entry["cause"] and which in entry:
                said = [f"{f['id']} ({f['severity']})" for f in entry[which]["findings"]]
                lines.append(f"| {_name(name, which)} | {', '.join(said) or 'none'} |")
    lines += [
        "",
        "Owned by the author after the first look (`judged.py`; not in the strict counts):",
        "",
    ]
    lines += [
        f"- `{name}`, {said.get('finding') or 'line ' + said['line']}: {said['why']}"
        for name, said in RIGHT_AFTER_ALL.items()
        if name in cases
    ]
    lines += ["", "The causes:", ""]
    seen = {name: entry for name, entry in cases.items() if "first_look" in entry}
    lines += [f"- `{name}`: {e['cause']}{_asked(e)}" for name, e in seen.items() if e["cause"]]
    return "\n".join(lines) + "\n"


def _recorded(cases: dict[str, Any]) -> str:
    """Return which programs were recorded again for `after`, and what holds of the others."""
    looks = {n: e["after"]["recorded"] for n, e in cases.items() if "after" in e}
    afresh = [name for name, look in looks.items() if look != "look0"]
    if len(afresh) == len(cases):
        return "All were recorded afresh."
    said = [f"Recorded afresh: {', '.join(afresh) or 'none'}"]
    if len(looks) > len(afresh):
        said.append(
            f"of {len(looks) - len(afresh)} the first recording was read again, which shows "
            "nothing of what was mended in the recording itself"
        )
    if len(cases) > len(looks):
        said.append(f"{len(cases) - len(looks)} have their first look alone")
    return f"{'; '.join(said)}."


def _asked(entry: dict[str, Any]) -> str:
    """Return what the author asked of an answer, where that was said in words."""
    return f". A right answer {entry['words']}" if "words" in entry else ""


def _name(name: str, which: str) -> str:
    return f"{name}, after" if which == "after" else name


def _row(name: str, entry: dict[str, Any], which: str) -> str:
    result = judged(name, entry, which)
    assert result is not None
    first, pairs = result["first"], entry.get("pairs")
    line = "-"
    if first and first["line_right"] is not None:
        line = "right" if first["line_right"] else f"wrong ({first['where'][0]})"
    cells = [
        _name(name, which),
        " ".join(entry["accept"]) or "by words",
        f"{first['id']} ({first['severity']})" if first else "none",
        "yes" if result["right"] else "owned below" if result["owned"] else "**no**",
        line,
        f"{entry[which]['step_ms']:.1f}",
        "{:.2f} to {:.2f}".format(*first["saving_ms"]) if first else "-",
        f"{saving_ms(pairs):.2f}" if pairs else "-",
        _word(result.get("inside")),
        _word(result.get("close")),
    ]
    return "| " + " | ".join(cells) + " |"


def _word(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "**no**"


_HEAD = (
    "Written by somebody who had read the README but none of the rules, nor their suite of faults; "
    "cause, line and accepted findings were written down before the first run under the profiler. "
    "`@line` accepts any finding that names a marked line first. Measured: mean step of the slow "
    "less that of the fixed form, whole loop, two pairs in turns without a profiler, one thread of "
    "torch on two cores (the ninth set: one pair, on an NVIDIA H100 with sixteen). The interval is judged where the finding was right."
)

_BY_WORDS = (
    " Here the author wrote in words what a right answer names (below), and an id is accepted "
    "where its finding, read after the look, named that. No saving is judged where the step of the "
    "look and that of the pairs differ by more than a factor of two: one met a busy machine."
)
