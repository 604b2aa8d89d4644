"""Runs the fault suite's cases under other profilers and writes down what each said.

    python benchmarks/peers/run.py --knobs KNOBS.json \
        --tool traceml=VENV --tool gpuprof=VENV --tool lightning-simple=VENV \
        --answers FOLDER

Each VENV is a virtual environment that holds torch, lightning and the tool (for gpuprof,
pytorch-lightning too). KNOBS.json is what benchmarks/faults/run.py calibrated (`knobs.json` in
its folder), so that every tool meets the very same faults. What each said is kept in FOLDER, a
file per answer: a run that was cut off goes on there, and the table holds all tools asked for.
"""

import json
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "faults")]

from _harness import one_thread, table, write_results  # noqa: E402
from causes import CAUSES  # noqa: E402
from controls import CONTROLS  # noqa: E402
from tools import TOOLS, Heard, Statement, credited  # noqa: E402


def heard_of(tool: str, venv: Path, key: str, case: list[str], answers: Path) -> Heard:
    """Return what a tool said of a case, asking it where no earlier answer is kept."""
    kept = answers / tool / f"{key.replace(' ', '-')}.json"
    if kept.exists():
        raw = json.loads(kept.read_text(encoding="utf-8"))
        return Heard([Statement(**one) for one in raw["statements"]], raw["text"], raw["failed"])
    with tempfile.TemporaryDirectory() as folder:
        heard = TOOLS[tool](venv, case, Path(folder))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(asdict(heard), indent=1), encoding="utf-8")
    _say(tool, key, heard)
    return heard


def judged(name: str, share: str, heard: Heard) -> dict[str, Any]:
    cause = CAUSES[name]
    right = [credited(cause.finding, cause.also, one.text) for one in heard.statements]
    return {
        "case": name,
        "wanted_frac": float(share),
        "first": bool(right) and right[0],
        "named": any(right),
        **as_dict(heard),
    }


def as_dict(heard: Heard) -> dict[str, Any]:
    statements = [asdict(one) for one in heard.statements[:5]]
    return {"said": statements, "failed": heard.failed, "text": heard.text}


def run_tool(tool: str, venv: Path, knobs: Mapping[str, float], answers: Path) -> dict[str, Any]:
    cases, controls = [], {}
    for key, knob in knobs.items():
        name, share = key.split()
        if name in CAUSES:
            heard = heard_of(tool, venv, key, [name, "--knob", str(knob)], answers)
            cases.append(judged(name, share, heard))
    for name in CONTROLS:
        heard = heard_of(tool, venv, name, [name], answers)
        alarms = [one.text for one in heard.statements if one.alarming]
        controls[name] = {"false_alarms": alarms, **as_dict(heard)}
    return {
        "case_count": len(cases),
        "first_count": sum(case["first"] for case in cases),
        "named_count": sum(case["named"] for case in cases),
        "failed_count": sum(case["failed"] for case in cases),
        "control_count": len(controls),
        "false_alarm_count": sum(bool(one["false_alarms"]) for one in controls.values()),
        "cases": cases,
        "controls": controls,
    }


def markdown(tools: Mapping[str, Mapping[str, Any]]) -> str:
    """Return one row per tool and share of the step, then what each said first of each case."""
    counts = []
    for tool, found in tools.items():
        for share in sorted({case["wanted_frac"] for case in found["cases"]}):
            cases = [case for case in found["cases"] if case["wanted_frac"] == share]
            first, named, failed = (
                sum(case[name] for case in cases) for name in ("first", "named", "failed")
            )
            of = f"of {len(cases)}"
            counts.append((tool, f"{share:.0%}", f"{first} {of}", f"{named} {of}", failed))
    alarms = "; ".join(
        f"{tool} {found['false_alarm_count']} of {found['control_count']}"
        for tool, found in tools.items()
    )
    said = (
        (row[0]["case"], f"{row[0]['wanted_frac']:.0%}", *map(_cell, row))
        for row in zip(*(found["cases"] for found in tools.values()), strict=True)
    )
    head = ("tool", "share of the step", "cause named first", "named at all", "failed")
    lines = [*table(head, counts), "", f"Clean controls with an alarm: {alarms}.", ""]
    return "\n".join([*lines, *table(("case", "share", *tools), said), ""])


def _cell(case: Mapping[str, Any]) -> str:
    if case["failed"]:
        return "failed"
    first = case["said"][0]["text"][:80].replace("|", "/") if case["said"] else "nothing"
    return f"**{first}**" if case["first"] else first


def _say(tool: str, case: str, heard: Heard) -> None:
    first = heard.statements[0].text if heard.statements else "nothing"
    print(f"{tool}: {case}: {'FAILED ' + heard.text[-300:] if heard.failed else first}", flush=True)


def main() -> None:
    parser = ArgumentParser(description="Run the fault suite under other profilers.")
    parser.add_argument("--tool", action="append", type=_tool, required=True, help="NAME=VENV")
    parser.add_argument("--knobs", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True, help="kept here, and reused")
    args = parser.parse_args()
    one_thread()
    knobs = json.loads(args.knobs.read_text(encoding="utf-8"))
    tools = {}
    for tool, venv in args.tool:
        tools[tool] = run_tool(tool, venv, knobs, args.answers)
        write_results("peers", {"tools": tools}, page=markdown(tools))
    print(markdown(tools))


def _tool(chosen: str) -> tuple[str, Path]:
    tool, _, venv = chosen.partition("=")
    if tool not in TOOLS:
        raise ArgumentTypeError(f"{tool!r} is none of {', '.join(TOOLS)}")
    folder = Path(venv).absolute()
    if not (folder / "bin" / "python").exists():
        raise ArgumentTypeError(f"{folder} is no virtual environment")
    return tool, folder


if __name__ == "__main__":
    main()
