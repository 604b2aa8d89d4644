"""Lays text out for a terminal: styled lines, paragraphs that wrap between words, and columns.

A style is a few words of `STYLES`, such as "bold red"; "not bold" undoes the style that a line has
as a whole.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from typing_extensions import Self

STYLES = {
    "bold": 1,
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "cyan": 36,
}
"""The parameter of ECMA-48's SGR of each style, which terminals know."""
_TAB = 8
_LEAST_CELLS = 4
"""A column of names keeps this width at all costs."""
_WORD = re.compile(" *[^ ]+ *| +")


class Block(Protocol):
    """What a page consists of: it has lines that fit into a number of columns."""

    def lines(self, width: int) -> "list[Line]":
        """Return the lines, none wider than `width`."""


class Line:
    """Text with a style, to which text of other styles can be appended."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.style = style
        self.parts = [(text, style)] if text else []

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self.parts)

    def append(self, line: "Line") -> Self:
        """Append another line, whose styles are added to the style of this one."""
        self.parts += [(text, _joined(self.style, style)) for text, style in line.parts]
        return self

    def styled(self, style: str) -> "Line":
        """Return the line with a style that all of its parts have as well."""
        return Line(style=style).append(self)

    def cut(self, start: int, end: int | None = None) -> "Line":
        """Return a part of the line, as a slice of its text."""
        line, at = Line(style=self.style), 0
        for text, style in self.parts:
            kept = text[max(0, start - at) : None if end is None else max(0, end - at)]
            if kept:
                line.parts.append((kept, style))
            at += len(text)
        return line

    def stripped(self) -> "Line":
        """Return the line without spaces at its end."""
        return self.cut(0, len(self.plain.rstrip()))

    def lines(self, width: int) -> "list[Line]":
        """Return the lines of a paragraph, which ends a line where the text has a line break."""
        lines, at = [], 0
        for text in self.plain.split("\n"):
            line = self.cut(at, at + len(text))
            line.parts = [(part.expandtabs(_TAB), style) for part, style in line.parts]
            starts = [0, *_breaks(line.plain, width)]
            lines += [
                line.cut(start, end).stripped() for start, end in zip_longest(starts, starts[1:])
            ]
            at += len(text) + 1
        return lines


@dataclass
class Indented:
    """A block with empty columns before it, and empty lines above it."""

    block: Block
    by: int = 0
    above: int = 0

    def lines(self, width: int) -> list[Line]:
        """Return the empty lines, and those of the block behind its margin."""
        margin = " " * self.by
        lines = [Line(margin).append(line) for line in self.block.lines(width - self.by)]
        return [*(Line() for _ in range(self.above)), *lines]


@dataclass
class Stack:
    """Blocks one below the other."""

    blocks: Sequence[Block]

    def lines(self, width: int) -> list[Line]:
        """Return the lines of all blocks."""
        return [line for block in self.blocks for line in block.lines(width)]


@dataclass(frozen=True)
class GridColumn:
    """How a column of a grid is laid out.

    Attributes:
        right: Whether its cells are aligned to the right and keep their width at all costs.
        wraps: Whether it becomes narrower, and its cells have several lines, if space is short.
        style: The style of its cells.
    """

    right: bool = False
    wraps: bool = False
    style: str = ""


@dataclass
class Grid:
    """Rows of cells in aligned columns."""

    columns: Sequence[GridColumn]
    rows: Sequence[Sequence[Line]]
    gap: int

    def lines(self, width: int) -> list[Line]:
        """Return the lines of all rows. What does not fit in spite of all is cut off."""
        widths = self._widths(width)
        return [line for row in self.rows for line in self._row(row, widths, width)]

    def _row(self, row: Sequence[Line], widths: Sequence[int], width: int) -> Iterator[Line]:
        shown = [
            (cell.styled(column.style), column, own - gap, gap)
            for cell, column, own, gap in zip(row, self.columns, widths, self._gaps, strict=True)
            if own > gap
        ]
        cells = [
            cell.lines(own) if column.wraps and not column.right else [_cropped(cell, own)]
            for cell, column, own, _ in shown
        ]
        for texts in zip_longest(*cells, fillvalue=Line()):
            line = Line()
            for text, (_, column, own, gap) in zip(texts, shown, strict=True):
                space = Line(" " * (own - cells_of(text.plain)))
                for part in (space, text) if column.right else (text, space):
                    line.append(part)
                line.append(Line(" " * gap))
            yield _cropped(line, width).stripped()

    @property
    def _gaps(self) -> list[int]:
        """The space after each column."""
        return [self.gap] * (len(self.columns) - 1) + [0]

    def _widths(self, width: int) -> list[int]:
        """Return the columns' widths with the space after them.

        If space is short, the widest of those that wrap become narrower, and are left out at worst;
        then the widest of the others, but for numbers.
        """
        widths = [
            max([1, *(cells_of(row[at].plain) for row in self.rows)]) + gap
            for at, gap in enumerate(self._gaps)
        ]
        excess = sum(widths) - width
        texts = [at for at, column in enumerate(self.columns) if not column.right]
        wrapping = [at for at in texts if self.columns[at].wraps]
        others = [at for at in texts if at not in wrapping]
        for group, least in ((wrapping, 0), (others, _LEAST_CELLS + self.gap)):
            while excess > 0 and any(widths[at] > least for at in group):
                widths[max(group, key=lambda at: widths[at])] -= 1
                excess -= 1
        return widths


def cells_of(text: str) -> int:
    r"""Return how many columns of a terminal a text takes.

    >>> cells_of("aten::mm"), cells_of("行列"), cells_of("e\u0301")
    (8, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def as_ansi(lines: Iterable[Line]) -> str:
    """Return lines with their styles as escape sequences."""
    return "".join("".join(_ansi(*part) for part in line.parts) + "\n" for line in lines)


def as_plain(lines: Iterable[Line]) -> str:
    """Return lines without their styles."""
    return "".join(line.plain + "\n" for line in lines)


def _ansi(text: str, style: str) -> str:
    codes = ";".join(str(STYLES[word]) for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _joined(base: str, style: str) -> str:
    """Return the style of a part with that of the whole line.

    >>> _joined("bold", "not bold"), _joined("yellow", "bold")
    ('', 'bold yellow')
    """
    undone = style.removeprefix("not ") if style.startswith("not ") else None
    words = base.split() if undone is None else [word for word in base.split() if word != undone]
    return " ".join(dict.fromkeys([*([] if undone else style.split()), *words]))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cropped(line: Line, width: int) -> Line:
    taken = 0
    for at, char in enumerate(line.plain):
        taken += _cells(char)
        if taken > width:
            return line.cut(0, at)
    return line


def _breaks(text: str, width: int) -> Iterator[int]:
    """Yield where the lines of a paragraph begin, except for the first line.

    A line ends between words. A word that is wider than a line begins a line, and is cut.
    """
    taken = at = 0
    for word in _WORD.findall(text):
        letters = word.rstrip(" ")
        if taken and taken + cells_of(letters) > width:
            yield at
            taken = 0
        for char in letters:
            if taken and taken + _cells(char) > width:
                yield at
                taken = 0
            taken += _cells(char)
            at += 1
        spaces = len(word) - len(letters)
        taken += spaces
        at += spaces
