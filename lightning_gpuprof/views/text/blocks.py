"""A page as blocks, as text for a terminal or as GitHub-flavoured Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lightning_gpuprof.units import shortened
from lightning_gpuprof.views.text.terminal import PLAIN, Terminal

LEAST_NAME = 16
_MARKUP = re.compile(r"[\\`*\[\]<~$]|^>|(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"[@#](?=\w)")


def plain(text: str) -> str:
    """Return text as it is to be read; on GitHub no name is mentioned, no issue is linked."""
    escaped = _MARKUP.sub(r"\\\g<0>", " ".join(text.replace("&", "&amp;").split()))
    return _LINKS.sub(lambda found: f"{found[0]}<!-- -->", escaped)


def code(text: str) -> str:
    """Return text as code within a line, whatever backticks it holds."""
    text = " ".join(text.split())
    if "`" not in text:
        return f"`{text}`"
    fence = _fence(text, least=1)
    return f"{fence} {text} {fence}"


def block(text: str, *, indent: int = 0) -> str:
    """Return text as a block of code."""
    fence = _fence(text, least=3)
    lines = (f"{fence}python", *text.splitlines(), fence)
    return "\n".join(" " * indent + line for line in lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> str:
    """Return a table; pipes in its cells, which are Markdown themselves, are escaped."""
    rule = "|".join("--:" if column in right else "---" for column in range(len(header)))
    return "\n".join((_row(header), f"|{rule}|", *map(_row, rows)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _fence(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


@dataclass(frozen=True)
class Lead:
    """A sentence of its own."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Items:
    """A list; `mark` stands before each row."""

    rows: Sequence[str]
    title: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows whose first cell is a name; the others stand to the right, but for those in `left`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)


Block = Lead | Items | Table


def as_text(blocks: Iterable[Block], on: Terminal = PLAIN) -> str:
    """Return the blocks as lines, with an empty one between."""
    return "\n\n".join("\n".join(_lines(block, on)) for block in blocks) + "\n"


def as_markdown(blocks: Iterable[Block]) -> str:
    """Return the blocks as paragraphs, lists and tables."""
    return "\n\n".join(part for block in blocks for part in _markdown(block)) + "\n"


def aligned(
    rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), width: int | None = None
) -> list[str]:
    """Return rows as lines with aligned columns; cut to a width in the first.

    >>> aligned([("name", "time"), ("a", "1.5 ms")])
    ['name    time', 'a     1.5 ms']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None and sum(widths) + 2 * len(widths) > width:
        widths[0] = max(LEAST_NAME, width - sum(widths[1:]) - 2 * len(widths))
        rows = [(shortened(name, widths[0]), *row) for name, *row in rows]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _lines(block: Block, on: Terminal) -> Iterator[str]:
    if isinstance(block, Lead):
        yield on.wrapped(block.text, "bold" if block.bold else "")
        return
    if block.title:
        yield on.wrapped(block.title.upper(), "bold")
    if isinstance(block, Items):
        mark = f"{block.mark} " if block.mark else "  "
        color = "yellow" if block.mark else ""
        yield from (on.wrapped(f"{mark}{row}", color) for row in block.rows)
    else:
        for line in aligned([("", *block.columns), *block.rows], block.left, on.width):
            yield f"  {line}"


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Lead):
        text = plain(block.text)
        yield f"**{text}**" if block.bold else text
    elif isinstance(block, Items):
        if block.title:
            yield f"{block.title}:"
        mark = "note: " if block.mark else ""
        yield "\n".join(f"- {mark}{plain(row)}" for row in block.rows)
    else:
        rows = [[code(name), *map(plain, row)] for name, *row in block.rows]
        right = [i for i in range(len(block.columns) + 1) if i not in block.left]
        yield table((block.title, *block.columns), rows, right=right)
