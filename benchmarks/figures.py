"""Prints sizes, default parts and import times: `make figures`.

Nothing limits the sizes; people judge them. Import times are medians of fresh interpreters: run it
on a quiet machine.
"""

import ast
import dataclasses
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LONG_FUNCTION, LONG_FILE = 50, 300
INTERPRETERS = 7
IMPORTS_MS = {
    "import lightning_gpuprof": ("", "import lightning_gpuprof", 20),
    "the callback made, torch and lightning loaded": (
        "import torch, lightning.pytorch",
        "from lightning_gpuprof import GpuProfCallback; GpuProfCallback()",
        150,
    ),
}
"""By name: imported before, timed, goal in ms."""


def python_files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def line_count(folder: str) -> int:
    """Return the lines of Python in a folder, blank ones and comments included."""
    return sum(len(_lines(path)) for path in python_files(folder))


def word_count() -> int:
    """Return the words of README and docs, as `wc -w` counts them."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def sizes() -> dict[str, int]:
    """Return lines, words, and what deserves a second look."""
    return {
        "package": line_count("lightning_gpuprof"),
        "tests": line_count("tests"),
        "benchmarks": line_count("benchmarks"),
        "words": word_count(),
        "long functions": len(list(long_functions())),
        "long files": len(long_files()),
        "ignores without a reason": len(list(bare_ignores())),
    }


def long_functions() -> Iterator[str]:
    """Yield the package's functions of more lines than `LONG_FUNCTION`, docstrings included."""
    for path in python_files("lightning_gpuprof"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONG_FUNCTION:
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines}"


def long_files() -> list[str]:
    """Return the package's files of more lines than `LONG_FILE`."""
    counted = ((path, len(_lines(path))) for path in python_files("lightning_gpuprof"))
    return [f"{path.relative_to(ROOT)}: {lines}" for path, lines in counted if lines > LONG_FILE]


def bare_ignores() -> Iterator[str]:
    """Yield the package's lint ignores that say no reason behind their code."""
    for path in python_files("lightning_gpuprof"):
        for number, line in enumerate(_lines(path), 1):
            found = re.search(r"# (?:noqa|ruff: noqa)(?:: ?[\w, ]+?)?(?P<reason> [-(#].*)?$", line)
            if found and not found["reason"]:
                yield f"{path.relative_to(ROOT)}:{number}"


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def default_parts() -> dict[str, list[str]]:
    """Return the parts of `GpuProfCallback()`, each with the options that switch it off."""
    from lightning_gpuprof import GpuProfCallback
    from lightning_gpuprof.config import GpuProfConfig
    from lightning_gpuprof.errors import ConfigError

    def names(**options: Any) -> list[str]:
        return [type(part).__name__ for part in GpuProfCallback(**options).parts]

    found: dict[str, list[str]] = {name: [] for name in names()}
    for field in dataclasses.fields(GpuProfConfig):
        for off in (False, ()):
            try:
                left = names(**{field.name: off})
            except ConfigError:
                continue  # not an option that takes this
            for name in set(found) - set(left):
                found[name].append(f"{field.name}={off}")
    return found


def import_ms(before: str, timed: str) -> float:
    """Return the median milliseconds of an import in fresh interpreters."""
    code = f"{before}\nimport time\nbegin = time.perf_counter()\n{timed}\n"
    code += "print((time.perf_counter() - begin) * 1e3)"
    took = []
    for _ in range(INTERPRETERS):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        took.append(float(done.stdout.splitlines()[-1]))
    return statistics.median(took)


def main() -> None:
    from lightning_gpuprof.findings.registry import rules

    for name, count in sizes().items():
        print(f"{count:7,}  {name}")
    for title, rows in (
        (f"functions over {LONG_FUNCTION} lines", long_functions()),
        (f"files over {LONG_FILE} lines", long_files()),
        ("lint ignores without a reason", bare_ignores()),
    ):
        print(f"\n{title}:", *(rows or ["none"]), sep="\n  ")
    print(f"\n{len(rules())} rules")
    parts = default_parts()
    print(f"{len(parts)} default parts, each with what switches it off:")
    for name, switches in parts.items():
        print(f"  {name}: {', '.join(switches) or 'NO SWITCH'}")
    print(f"\nmedians of {INTERPRETERS} fresh interpreters:")
    for name, (before, timed, goal_ms) in IMPORTS_MS.items():
        print(f"  {name}: {import_ms(before, timed):.0f} ms (goal: under {goal_ms})")


if __name__ == "__main__":
    main()
