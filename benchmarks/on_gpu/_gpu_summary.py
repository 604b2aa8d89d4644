"""The summary of a GPU run: figures first, then failures and their reasons, the outcome last.

On a machine that is lent by the minute, the last lines may be all that comes back at once: this
stays within `CHARS`, and the JSON has the rest.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _figures import shown

CHARS, REASONS_CHARS, REASON_CHARS = 11_000, 5_000, 700
TAIL_LINES, INNERMOST, STACK_CHARS = 12, 6, 1_500
FIGURES, FAILED_TESTS, LINE_CHARS = 60, 15, 120
"""So many lines of each at most; of figures those within their limit are left out first."""
AFTER_FAILURES = re.compile(
    r"={3,} (PASSES|XFAILURES|XPASSES|warnings summary.*|short test summary info|slowest .+"
    r"|\d+ \w+.* in [\d.]+s.*) ={3,}"
)
"""Headings of pytest, and its last line."""
ROOT = Path(__file__).resolve().parents[2]
Lines = list[str]


def summarize(result: dict[str, Any], *written: Path) -> None:
    """Print what was measured, what did not pass and why, and the outcome of each part."""
    first, last = [*figure_lines(result), ""], outcome(result)
    last += [f"Written: {' '.join(map(str, written))}"]
    more = "more in the JSON: failures, tail"
    left = CHARS - len("\n".join([*first, *last])) - len(more) - 10
    why = _cut("\n".join(reasons(result)), max(0, min(REASONS_CHARS, left)), more)
    end = "\n".join([*first, *([why, ""] if why else []), *last])
    details = "\n".join(detail_lines(result))
    print(f"\n{details}\n"[: max(0, CHARS - len(end))] + f"\n{end}")


def detail_lines(result: dict[str, Any]) -> Iterator[str]:
    """Yield what the benchmarks measured, one line for each thing compared."""
    for part in ("marks", "faults"):
        for name, value in result.get(part, {}).items():
            yield f"  {part} {name:18} {_brief(value)}"
    for name, row in result.get("memory", {}).get("models", {}).items():
        yield f"  memory {name:17} {_brief(row)}"
    for name, row in result.get("examples", {}).get("examples", {}).items():
        if "failure" not in row:
            took = [f"{row[side]['process_s']['median']:.1f} s" for side in ("before", "after")]
            said = row.get("compare", {}).get("sentence", "")
            yield f"  examples {name:15} {', '.join(took)} {said}"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if key not in ("failure", "said")}
    return json.dumps(value)


def figure_lines(result: dict[str, Any]) -> Lines:
    """Return the figures that have a limit, those beyond it last."""
    rows = sorted(result.get("figures", []), key=lambda row: not row["passed"])
    lines = [f"  {shown(row)}"[:LINE_CHARS] for row in rows]
    more = len(lines) - FIGURES
    return lines if more <= 0 else [f"  and {more} more in the JSON", *lines[more:]]


def reasons(result: dict[str, Any]) -> Iterator[str]:
    """Yield why tests and parts did not pass, briefly, by part."""
    failed = [
        (part, row)
        for part, row in result["parts"].items()
        if row["status"] != "passed" and not row["status"].startswith("left out")
    ]
    for part, row in failed:
        blocks = list(_blocks(row.get("failures", [])))
        for name, block in blocks:
            yield _cut(f"FAILED {name}\n" + "\n".join(_error(block)), REASON_CHARS, "...")
        if not blocks or row.get("stacks"):
            stacks, tail = row.get("stacks"), "\n".join(row["tail"][-TAIL_LINES:])
            where = _cut("\n".join(_stack(stacks)), STACK_CHARS, "...") if stacks else None
            yield f"{part} {row['status']}:\n{where or tail[-REASON_CHARS:]}"
    for part, entries in (
        ("marks", result.get("marks", {})),
        ("faults", result.get("faults", {})),
        ("memory", result.get("memory", {}).get("models", {})),
        ("examples", result.get("examples", {}).get("examples", {})),
    ):
        for name, value in entries.items():
            if isinstance(value, dict) and value.get("failure"):
                yield _cut(f"FAILED {part} {name}\n" + "\n".join(_error(value["failure"])),
                           REASON_CHARS, "...")  # fmt: skip


def _blocks(failures: Lines) -> Iterator[tuple[str, Lines]]:
    """Yield each failure's name and lines, as pytest and what stands in for it write them."""
    name, block = "", Lines()
    for line in failures:
        if AFTER_FAILURES.fullmatch(line):
            break
        if header := re.fullmatch(r"_{2,} (.+?) _{2,}|={3,} (?:ERRORS|FAILURES) ={3,}", line):
            if name:
                yield name, block
            name, block = header[1] or "", []  # what follows a section's heading is no error
        else:
            block.append(line)
    if name:
        yield name, block


def _error(block: Lines) -> Lines:
    """Return the error of a traceback and where it was raised."""
    own = [line for line in block if line.startswith("E ")]
    if own:
        places = [line for line in block if re.match(r"\S+:\d+: ", line)]
        return [*own[:8], *places[-1:]]
    lines = [line for line in block if line.strip()]
    raised = [
        number
        for number, line in enumerate(lines[1:], start=1)
        if not line[0].isspace() and lines[number - 1][0].isspace()
    ]
    at = raised[-1] if raised else len(lines)
    return lines[max(0, at - 3) : at + 8]


def _stack(lines: Lines) -> Lines:
    """Return the stack of the thread that a signal reached: the innermost lines, and ours."""
    current = [at for at, line in enumerate(lines) if line.startswith("Current thread")]
    stack = "\n".join(lines[current[-1] if current else 1 :]).split("\n\n")[0].splitlines()
    ours = [line for line in stack[INNERMOST:] if str(ROOT) in line]
    return [lines[0], *stack[:INNERMOST], *ours]


def outcome(result: dict[str, Any]) -> Lines:
    """Return the tests that did not pass, the parts with their outcome, and the machine."""
    tests = result.get("tests", {})
    failed = [name for name, status in tests.items() if status not in ("passed", "skipped")]
    lines = [f"  {tests[name]}: {name}"[:LINE_CHARS] for name in failed[:FAILED_TESTS]]
    if len(failed) > FAILED_TESTS:
        lines += [f"  and {len(failed) - FAILED_TESTS} more"]
    if tests:
        passed = sum(status == "passed" for status in tests.values())
        lines += [f"  {passed} of {len(tests)} tests passed"]
    lines += ["", "Part                 Outcome                   Time"]
    for name, part in result["parts"].items():
        lines.append(f"{name:20} {part['status']:25} {part['seconds']:5.1f} s")
    facts = result["machine"]
    return [*lines, f"{facts['gpu']}, driver {facts['driver']}, torch {facts['versions']['torch']}"]


def _cut(text: str, chars: int, instead: str) -> str:
    return text if len(text) <= chars else f"{text[:chars]}\n[{instead}]"
