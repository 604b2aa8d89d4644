"""A page as blocks, shown as text for a terminal or as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lightning_gpuprof.views.text import markup


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
    """Headings of the cells after the first."""
    rows: Sequence[Sequence[str]]
    left: Sequence[int] = (0,)


Block = Lead | Items | Table


def as_text(blocks: Iterable[Block]) -> str:
    """Return the blocks as lines, with an empty one between."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def as_markdown(blocks: Iterable[Block]) -> str:
    """Return the blocks as paragraphs, lists and tables."""
    return "\n\n".join(part for block in blocks for part in _markdown(block)) + "\n"


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return rows as lines with aligned columns.

    >>> aligned([("name", "time"), ("a", "1.5 ms")])
    ['name    time', 'a     1.5 ms']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Lead):
        yield block.text
        return
    if block.title:
        yield block.title.upper()
    if isinstance(block, Items):
        mark = f"{block.mark} " if block.mark else "  "
        yield from (f"{mark}{row}" for row in block.rows)
    else:
        for line in aligned([("", *block.columns), *block.rows], block.left):
            yield f"  {line}"


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Lead):
        text = markup.plain(block.text)
        yield f"**{text}**" if block.bold else text
    elif isinstance(block, Items):
        if block.title:
            yield f"{block.title}:"
        mark = "note: " if block.mark else ""
        yield "\n".join(f"- {mark}{markup.plain(row)}" for row in block.rows)
    else:
        rows = [[markup.code(name), *map(markup.plain, row)] for name, *row in block.rows]
        right = [i for i in range(len(block.columns) + 1) if i not in block.left]
        yield markup.table((block.title, *block.columns), rows, right=right)
