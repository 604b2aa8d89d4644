"""Writes docs/reference/json.md from the document's classes and from documents of many kinds."""

import ast
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from lightning_gpuprof.report import document
from lightning_gpuprof.report.document import Bars, Chart, Document, Figures, Multiples, Table

TESTS = Path(__file__).parents[2] / "tests"
INTRODUCTION = (
    "`report`, `compare`, `analyze` and `try --json` print one typed document: what the console, "
    "Markdown, the HTML file and the PROFILE tab show as well. Its classes are in "
    "`lightning_gpuprof/report/document.py`, where `decode(text)` reads a document back. What the "
    "sections of comparisons and trials say: [json-commands.md](json-commands.md).",
    "Times are nanoseconds, sizes are bytes, shares are of 1: each figure and column names its "
    "unit. `type` says which class a part or a value is of. `null`, or a key that a row lacks, "
    "was not measured; 0 is a measured zero. Fields that have their default are left out. "
    "Sections and keys may be added under the same `schema_version`.",
)
KINDS = {
    "run": "lightning-gpuprof report RUN --json",
    "comparison": "lightning-gpuprof compare BASE NEW --json",
    "trial": "lightning-gpuprof try SCRIPT --json",
    "trace": "lightning-gpuprof analyze TRACE --json",
    "file": "lightning-gpuprof analyze FILE --json",
}
"""Each kind of document, and the command that prints it."""


def json_page() -> str:
    """Return the page: every class with its fields, then the sections and keys of each kind."""
    lines = ["# JSON documents", ""]
    for paragraph in INTRODUCTION:
        lines += [*textwrap.wrap(paragraph, 120), ""]
    lines += _classes()
    for kind, command in KINDS.items():
        lines += [f"## Sections of a {kind}: `{command}`", ""]
        lines += _sections(sample_documents(kind))
    return "\n".join(lines)


def sample_documents(kind: str) -> Iterable[Document]:
    """Return documents of a kind, which together have every section."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from document_samples import SAMPLES

    with tempfile.TemporaryDirectory() as folder:
        return list(SAMPLES[kind](Path(folder) / "runs").values())


def _classes() -> Iterator[str]:
    tree = ast.parse(Path(document.__file__).read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    bodies = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    first = ["Document", "Subject", "Section"]
    for name in [*first, *(name for name in names if name not in first)]:
        yield from _class(bodies[name])
    for node, described in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.Assign) and _is_literal(node.value):
            (target,) = node.targets
            choices = ", ".join(f"`{choice}`" for choice in ast.literal_eval(_choices(node.value)))
            yield from (
                f"## {ast.unparse(target)}",
                "",
                f"{_text(described)} One of {choices}.",
                "",
            )


def _class(node: ast.ClassDef) -> Iterator[str]:
    tag = next((word.value for word in node.keywords if word.arg == "tag"), None)
    typed = f" (`type`: `{ast.literal_eval(tag)}`)" if tag is not None else ""
    yield from (f"## {node.name}{typed}", "", _paragraph(ast.get_docstring(node) or ""), "")
    rows = list(_fields(node))
    if rows:
        yield from ("| key | type | meaning |", "|---|---|---|", *rows, "")


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for field, described in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            meaning = _text(described) if described is not None else ""
            yield f"| `{ast.unparse(field.target)}` | `{kind}` | {meaning} |"


def _text(node: ast.stmt) -> str:
    """Return the text of a string that stands for itself; empty for any other statement."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return _paragraph(str(node.value.value)).replace("|", "\\|")
    return ""


def _paragraph(text: str) -> str:
    return " ".join(text.split())


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"


def _choices(node: ast.expr) -> ast.expr:
    assert isinstance(node, ast.Subscript)
    return node.slice


def _sections(documents: Iterable[Document]) -> Iterator[str]:
    """Yield a table of sections with the ids and keys of their parts, as samples have them."""
    order: list[str] = []
    rows: dict[str, tuple[str, str]] = {}
    parts: dict[str, dict[str, None]] = {}
    for sample in sorted(documents, key=lambda document: -len(document.sections)):
        before = 0
        for section in sample.sections:
            if section.id not in rows:
                order.insert(before, section.id)
                rows[section.id] = section.title, section.detail
            before = order.index(section.id) + 1
            for part in section.body:
                parts.setdefault(section.id, {}).update(dict.fromkeys(_parts(part)))
    head = ("section", "title", "shown", "figures, tables, bars and charts")
    yield from (f"| {' | '.join(head)} |", "|---|---|---|---|")
    for name in order:
        title, detail = rows[name]
        yield f"| `{name}` | {title} | {detail} | {'; '.join(parts.get(name, ()))} |"
    yield ""


def _parts(part: object) -> Iterator[str]:
    if isinstance(part, Figures):
        for figure in part.figures:
            yield f"`{figure.key}` ({figure.unit})"
    elif isinstance(part, Table):
        columns = ", ".join(f"`{column.key}` ({column.unit})" for column in part.columns)
        yield f"table `{part.id}`: {columns}"
    elif isinstance(part, Bars):
        yield f"bars `{part.id}` ({part.unit})"
    elif isinstance(part, Multiples):
        yield f"multiples `{part.id}` ({part.unit})"
    elif isinstance(part, Chart):
        yield f"chart `{part.name}`"
    else:
        yield type(part).__name__
