"""Tables and bars of a document as columns for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from lightning_gpuprof.report.document import Bar, Bars, Column, Place, Table, Unit, Value
from lightning_gpuprof.report.format import column_decimals, shown
from lightning_gpuprof.report.text_layout import Grid, GridColumn, Indented, Line
from lightning_gpuprof.units import shortened

BAR_WIDTH = 40
LABEL_WIDTH = 48
GAP = 2
LEAST_NAME = 8
SHORT_TEXT = 14
"""A text of so few letters stands on one line."""
LEAST_SOURCE = 12
LINE_WIDTH = 60
"""The width of a line of code with its source, if the terminal has that many columns."""
MIN_BAR_FRAC = 0.005
"""Bars below this share are summed up in one bar, except in a verbose report."""
LEFT = ("text", "code", "place", "state")
"""Units of columns that are aligned to the left."""
STATE_STYLES = {"bad": "red", "look": "yellow", "not_measured": "dim"}


def grid(
    rows: Iterable[Sequence[str | Line]],
    *,
    right: Sequence[int] = (),
    head: Sequence[str] = (),
    first: str = "",
    indent: int = 2,
    wrapped: Sequence[int] = (),
) -> Indented:
    """Return rows as aligned columns.

    The last column and those in `wrapped` are wrapped if they are too long. `first` is the style
    of the first column.
    """
    rows = [*([[Line(text, "dim") for text in head]] if any(head) else []), *rows]
    count = len(rows[0]) if rows else 0
    columns = [
        GridColumn(
            right=at in right,
            wraps=at == count - 1 or at in wrapped,
            style=first if at == 0 else "",
        )
        for at in range(count)
    ]
    cells = [[Line(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return Indented(Grid(columns, cells, GAP), indent)


def cell_text(
    value: Value,
    unit: Unit,
    width: int | None = None,
    *,
    keep_end: bool = False,
    decimals: int | None = None,
) -> Line:
    """Return a value as text, a line of code with its source, in at most `width` columns.

    `decimals` are those of a column of shares.
    """
    text = shown(value, unit, decimals)
    is_line = isinstance(value, Place) and value.file is not None
    if width is not None and len(text) > width:
        cut_end = shortened(text, width)
        text = f"...{text[3 - width :]}" if keep_end or is_line else cut_end
    cell = Line(text)
    if isinstance(value, Place) and value.file is not None and value.source:
        source = value.source.strip()
        left = len(source) if width is None else width - len(text) - len(" ``")
        if left >= min(LEAST_SOURCE, len(source)):
            cell.append(Line(f" `{shortened(source, left)}`", "dim"))
    return cell


def table_grid(table: Table, *, width: int, verbose: bool) -> Indented | None:
    """Return a table in columns; None if it has no rows.

    Columns that no row fills are left out. Names are cut if the terminal is narrow.
    """
    shown_columns = [
        column
        for column in table.columns
        if (verbose or column.detail != "verbose")
        and any(row.get(column.key) is not None for row in table.rows)
    ]
    rows = table.rows if verbose or table.first_rows is None else table.rows[: table.first_rows]
    if not rows or not shown_columns:
        return None
    widths = _name_widths(shown_columns, rows, width)
    decimals = {
        column.key: column_decimals((row.get(column.key) for row in rows), column.unit)
        for column in shown_columns
    }
    cells = [list(_cells(row, shown_columns, widths, decimals)) for row in rows]
    right = [at for at, column in enumerate(shown_columns) if column.unit not in LEFT]
    wrapped = [at for at, column in enumerate(shown_columns) if column.unit == "text"]
    head = [column.label for column in shown_columns]
    return grid(cells, right=right, head=head, wrapped=wrapped)


def _cells(
    row: Mapping[str, Value],
    columns: Sequence[Column],
    widths: Mapping[str, int],
    decimals: Mapping[str, int | None],
) -> Iterator[Line]:
    level = "  " if row.get("level") else ""
    state, note = row.get("state"), row.get("note")
    style = STATE_STYLES.get(state, "") if isinstance(state, str) else ""
    last_text = max((i for i, column in enumerate(columns) if column.unit == "text"), default=-1)
    for at, column in enumerate(columns):
        value = row.get(column.key)
        width = widths.get(column.key)
        if value is None and column.unit in LEFT:
            cell = Line("")
        else:
            cell = cell_text(
                value,
                column.unit,
                width,
                keep_end=column.keep_end,
                decimals=decimals[column.key],
            )
        if at == 0:
            cell = Line(level).append(cell)
        if column.unit == "state":
            cell = cell.styled(style)
        elif column.difference and state == "neutral":
            cell = cell.styled("dim")
        if note and at == last_text:
            cell.append(Line(f" {note}", "dim"))
        yield cell


def _name_widths(
    columns: Sequence[Column], rows: Sequence[Mapping[str, Value]], width: int
) -> dict[str, int]:
    """Return how wide names of code and places may be, so that a row fits into the terminal."""
    natural = {
        column.key: max(
            len(column.label),
            *(len(cell_text(row.get(column.key), column.unit).plain) for row in rows),
        )
        for column in columns
    }
    names = [column.key for column in columns if column.unit in ("code", "place")]
    places = [column.key for column in columns if column.unit == "place"]
    texts = sum(
        min(max(LEAST_NAME, natural[column.key]), SHORT_TEXT)
        for column in columns
        if column.unit == "text"
    )
    others = [c.key for c in columns if c.unit not in ("code", "place", "text")]
    fixed = sum(natural[key] for key in others) + texts + GAP * (len(columns) - 1) + 2
    widths = {key: min(natural[key], LINE_WIDTH if key in places else width) for key in names}
    while sum(widths.values()) + fixed > width and any(n > LEAST_NAME for n in widths.values()):
        widest, *narrower = sorted(widths, key=lambda key: -widths[key])
        excess = sum(widths.values()) + fixed - width
        wider = widths[widest] - max((widths[key] for key in narrower), default=LEAST_NAME)
        widths[widest] = max(LEAST_NAME, widths[widest] - min(excess, max(1, wider)))
    return widths


@dataclass(frozen=True)
class _Row:
    label: str
    value: float | None
    frac: float | None
    device_value: float | None
    level: int
    drawn: bool


def bars_grid(
    part: Bars, *, bar: str, width: int, most: int | None = None, verbose: bool = False
) -> Indented:
    """Return bars with their values; of `most` rows the largest, None for all.

    Unless verbose, bars that are short on the host and on the device are one row, so that all
    still add up to the whole.
    """
    rows = list(_bar_rows(part.bars, most=most, verbose=verbose))
    device = part.device_label is not None
    decimals = column_decimals((row.frac for row in rows), "frac")
    texts = [
        (
            "  " * row.level + shortened(row.label, LABEL_WIDTH),
            "" if row.value is None else shown(row.value, part.unit),
            "" if row.frac is None else shown(row.frac, "frac", decimals),
            *([] if not device else [_shown_or_empty(row.device_value, part.unit)]),
        )
        for row in rows
    ]
    head = ["", part.value_label, "", part.device_label or "", ""] if device else []
    lines = [*texts, tuple(head[:-1])] if device else texts
    beside = sum(max(map(len, column)) + GAP for column in zip(*lines, strict=True))
    bar *= max(1, min(BAR_WIDTH, width - beside - GAP))
    cells: list[Sequence[Line]] = []
    for row, own in zip(rows, texts, strict=True):
        style = "" if row.drawn else "dim"
        length = round((row.frac or 0.0) * len(bar)) if row.drawn else 0
        cells.append((*(Line(text, style) for text in own), Line(bar[:length], "blue")))
    return grid(cells, right=(1, 2, 3) if device else (1, 2), head=head)


def _shown_or_empty(value: float | None, unit: Unit) -> str:
    return "" if value is None else shown(value, unit)


def _bar_rows(bars: Sequence[Bar], *, most: int | None, verbose: bool) -> Iterator[_Row]:
    """Yield the rows of bars in their order; bars without a row of their own are the last row."""
    groups = list(_groups(bars))
    share = _larger_shares([bar for bar, _ in groups])
    own = [bar.key for bar, _ in groups if verbose or share[bar.key] >= MIN_BAR_FRAC]
    parts = {bar.key: inner for bar, inner in groups}
    count = len(own) + sum(len(parts[key]) for key in own)
    if most is not None and count >= most:
        own = nlargest(most - 1, own, key=lambda key: share[key])
        inner = [(key, part) for key in own for part in parts[key]]
        inner = nlargest(most - 1 - len(own), inner, key=lambda pair: pair[1].frac or 0.0)
        parts = {key: [part for of, part in inner if of == key] for key in own}
    for bar, _ in groups:
        if bar.key in own:
            yield _row(bar)
            yield from map(_row, parts[bar.key])
    small = [bar for bar, _ in groups if bar.key not in own]
    if small:
        yield _together(small)


def _larger_shares(bars: Sequence[Bar]) -> dict[str, float]:
    """Return each bar's share of the whole on the host or on the device, whichever is larger."""
    host = sum(bar.value or 0.0 for bar in bars) or 1.0
    device = sum(bar.device_value or 0.0 for bar in bars)
    whole = max(host, device)
    return {bar.key: max(bar.frac or 0.0, (bar.device_value or 0.0) / whole) for bar in bars}


def _together(bars: Sequence[Bar]) -> _Row:
    marked = [bar.device_value for bar in bars if bar.device_value is not None]
    return _Row(
        label=f"{len(bars)} smaller",
        value=sum(bar.value or 0.0 for bar in bars),
        frac=sum(bar.frac or 0.0 for bar in bars),
        device_value=sum(marked) if marked else None,
        level=0,
        drawn=False,
    )


def _groups(bars: Sequence[Bar]) -> Iterator[tuple[Bar, list[Bar]]]:
    """Yield each bar with its parts, the bars of a deeper level that follow it."""
    at = 0
    while at < len(bars):
        end = at + 1
        while end < len(bars) and bars[end].level > bars[at].level:
            end += 1
        yield bars[at], list(bars[at + 1 : end])
        at = end


def _row(bar: Bar) -> _Row:
    return _Row(bar.label, bar.value, bar.frac, bar.device_value, bar.level, bar.level == 0)
