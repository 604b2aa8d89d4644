"""Comparisons of runs as Markdown, for a pull request or a CI job's summary."""

from collections.abc import Iterable, Iterator, Sequence

from lightning_gpuprof.analysis.compare.compare import Change
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.views.documents.compare import RunComparison
from lightning_gpuprof.views.documents.compare_several import COLUMNS, SeveralComparison, cells
from lightning_gpuprof.views.documents.compare_words import (
    NO_VALUES,
    answer,
    changed,
    counted,
    in_percent,
    least_ns,
    settings,
    shown,
    values,
    warnings,
)
from lightning_gpuprof.views.markdown.markdown import code, plain, table


def comparison_markdown(found: RunComparison) -> str:
    """Return the comparison of two runs, its sentence first."""
    return "\n\n".join(_parts(found)) + "\n"


def several_markdown(found: SeveralComparison) -> str:
    """Return the table of several runs, how many are faster first."""
    return "\n\n".join(_several(found)) + "\n"


def _parts(found: RunComparison) -> Iterator[str]:
    result = found.result
    yield f"**{plain(answer(found))}**"
    yield _list(
        (
            f"base: {code(found.base.run)} ({counted(found.base, result.base_steps)})",
            f"new: {code(found.new.run)} ({counted(found.new, result.new_steps)})",
        )
    )
    yield from _notes(found)
    unit = "per sample" if result.per_sample else "per step"
    clock = ", host clock" if any(result.by_device) else ""
    yield from _changes(f"Step, {unit}", result.steps)
    phases = changed(result.phases, least_ns(found))
    yield from _changes(f"Phases that changed, mean {unit}{clock}", phases, unit="_ns")
    yield from _changes("Memory", result.memory)
    yield from _findings("Findings gone", found.gone)
    yield from _findings("Findings new", found.appeared)
    yield f"Recorded values (within {found.tolerance:g}):"
    yield _list(plain(said) for said in values(found) or [NO_VALUES])


def _several(found: SeveralComparison) -> Iterator[str]:
    yield f"**{plain(found.sentence)}**"
    names = [f"{code(found.base.run)} (base)", *(code(one.new.run) for one in found.comparisons)]
    rows = [[name, *map(plain, row)] for name, row in zip(names, cells(found), strict=True)]
    yield table(COLUMNS, rows, right=(1, 2))
    for one in found.comparisons:
        if notes := list(_notes(one)):
            yield f"{code(one.new.run)}:"
            yield from notes


def _notes(found: RunComparison) -> Iterator[str]:
    said = [f"note: {plain(warning)}" for warning in warnings(found)]
    if (changes := settings(found)) is not None:
        said.append(plain(changes))
    if said:
        yield _list(said)


def _changes(title: str, rows: Sequence[Change], *, unit: str = "") -> Iterator[str]:
    cells = [
        [
            code(row.name if unit else row.name.removesuffix("_ns").removesuffix("_bytes")),
            shown(unit or row.name, row.base),
            shown(unit or row.name, row.new),
            in_percent(row),
        ]
        for row in rows
    ]
    if cells:
        yield table((title, "base", "new", "change"), cells, right=(1, 2, 3))


def _findings(title: str, findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield f"{title}:"
        yield _list(f"{plain(one.title)} ({code(one.id)})" for one in findings)


def _list(rows: Iterable[str]) -> str:
    return "\n".join(f"- {row}" for row in rows)
