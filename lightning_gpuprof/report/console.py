"""Shows a document as text for a terminal: the first screen answers, the rest follows.

Each type of part has a function here. The builders decide what is said, and in which order.
"""

from collections.abc import Iterator, Sequence
from typing import TextIO

from lightning_gpuprof.report.console_tables import (
    LEFT,
    bars_grid,
    cell_text,
    grid,
    table_grid,
)
from lightning_gpuprof.report.document import (
    Bars,
    Document,
    Figure,
    Figures,
    FindingCard,
    Part,
    Section,
    Table,
    Text,
    Verdict,
)
from lightning_gpuprof.report.format import shown
from lightning_gpuprof.report.terminal import WIDTH, columns, is_colored
from lightning_gpuprof.report.text_layout import (
    Block,
    Indented,
    Line,
    Stack,
    as_ansi,
    as_plain,
)
from lightning_gpuprof.units import ascii_only, shortened

SCREEN = 24
"""Lines of the smallest terminal."""
TALL_SCREEN = 50
"""Lines that the report of a run takes at most without --verbose, if its findings leave room."""
LEAST_BARS = 4
MOST_NOTES = 2
"""How many notes the first screen shows, and in how many lines each; full notes follow later."""
MOST_IN_FULL = 6
"""Of findings after this many only the titles are shown."""
MOST_PLACES = 4
INDENT = 2
SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
TEXT_STYLES = {"plain": "", "strong": "bold", "note": "dim", "warning": "yellow", "command": ""}
VERDICT_STYLES = {"change": "yellow", "failed": "bold red"}
MORE_LINES = 3
"""Lines for the names of the sections that are left out."""
OTHERS = "--verbose also shows: {}."
MORE = "--verbose shows the changes of all findings."


def render(
    document: Document,
    *,
    verbose: bool = False,
    color: bool = False,
    unicode: bool = True,
    width: int = WIDTH,
    most_lines: int | None = None,
) -> str:
    """Return the document as lines of at most `width` columns.

    `verbose` shows all sections, columns, rows and findings in full. Otherwise sections that would
    make the text longer than `most_lines` are named at its end.
    """
    page = _Page(document, width=width, verbose=verbose, bar="█" if unicode else "#")
    page.write(None if verbose else most_lines)
    text = as_ansi(page.lines) if color else as_plain(page.lines)
    return text if unicode else ascii_only(text)


def render_for(
    document: Document, stream: TextIO, *, verbose: bool = False, most_lines: int | None = None
) -> str:
    """Return the document for a stream: in its width, colours and encoding."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return render(
        document,
        verbose=verbose,
        color=is_colored(stream),
        unicode=encoding.startswith("utf"),
        width=columns(stream),
        most_lines=most_lines,
    )


class _Page:
    """Writes the sections of one document and counts the lines of the first screen."""

    def __init__(self, document: Document, *, width: int, verbose: bool, bar: str) -> None:
        self._document, self._width = document, width
        self._verbose, self._bar = verbose, bar
        self.lines: list[Line] = []
        self._height = 0
        self._postponed: list[str] = []
        numbers = enumerate(document.findings, start=1)
        self._numbers = {id(finding): number for number, finding in numbers}
        verdicts = {verdict.finding for verdict in document.parts(Verdict)}
        self._answered = next((card for card in document.findings if card.id in verdicts), None)

    def write(self, most_lines: int | None) -> None:
        subject, sections = self._document.subject, list(self._document.sections)
        self._print(Line(f"{subject.path or subject.name}: {subject.line}", "bold"))
        first = [section for section in sections if section.detail == "first"]
        screen = [any(isinstance(part, Bars) for part in section.body) for section in first]
        on_screen = first[: screen.index(True) + 1] if True in screen else []
        for section in on_screen:
            self._section(section, on_screen=True)
        for note in self._postponed:
            self._print(_indented(f"note: {note}", "dim", by=0))
        rest = [
            section
            for section in sections
            if section not in on_screen and (self._verbose or section.detail != "verbose")
        ]
        self._write_up_to(most_lines, rest)

    def _write_up_to(self, most_lines: int | None, sections: Sequence[Section]) -> None:
        """Write sections, and only name those in between for which there is no room."""
        left_out: list[str] = []
        last = len(sections) - 1
        room = 0 if most_lines is None or not sections else most_lines - MORE_LINES
        room -= self._lines_of(sections[last]) if room else 0
        for number, section in enumerate(sections):
            fits = not room or self._height + self._lines_of(section) <= room
            has_findings = any(isinstance(part, FindingCard) for part in section.body)
            if number == last and left_out:
                self._print(_indented(OTHERS.format(", ".join(left_out)), "dim", by=0, above=1))
            if fits or has_findings or number == last or not section.title:
                self._section(section)
            else:
                left_out.append(section.title[0].lower() + section.title[1:])

    def _lines_of(self, section: Section) -> int:
        """Return how many lines a section takes."""
        lines, height, postponed = len(self.lines), self._height, len(self._postponed)
        self._section(section)
        taken = self._height - height
        del self.lines[lines:], self._postponed[postponed:]
        self._height = height
        return taken

    def _section(self, section: Section, *, on_screen: bool = False) -> None:
        parts = [
            shown_part
            for part in section.body
            for shown_part in self._part(part, on_screen=on_screen, titled=bool(section.title))
        ]
        if not parts:
            return
        if section.title:
            self._print(_heading(section.title, section.note, self._width))
        elif section.note:
            self._print(_indented(section.note, "dim", by=0))
        for part in parts:
            self._print(part)

    def _print(self, block: Block) -> None:
        lines = block.lines(self._width)
        # The terminal wraps a bare line, so that a path or a command can be copied as one line.
        self.lines += [block.stripped()] if isinstance(block, Line) else lines
        self._height += len(lines)

    def _part(self, part: Part, *, on_screen: bool, titled: bool) -> Iterator[Block]:
        if isinstance(part, Verdict):
            yield from self._verdict(part)
        elif isinstance(part, Figures):
            yield from self._titled(part.title, _figures(part, INDENT if titled else 0))
        elif isinstance(part, Text):
            yield from self._text(part, on_screen=on_screen, by=INDENT if titled else 0)
        elif isinstance(part, Table):
            rows = table_grid(part, width=self._width - INDENT, verbose=self._verbose)
            if rows is not None:
                yield from self._titled(part.title, rows, part.note)
        elif isinstance(part, Bars):
            left = SCREEN - 4 - self._height  # its heading, and the terminal's prompt
            most = max(LEAST_BARS, left) if on_screen and not self._verbose else None
            bars = bars_grid(
                part, bar=self._bar, width=self._width, most=most, verbose=self._verbose
            )
            yield from self._titled(part.title, bars, part.note)
        elif isinstance(part, FindingCard):
            yield from self._finding(part)

    def _titled(self, title: str | None, part: Block, note: str | None = None) -> Iterator[Block]:
        if title:
            yield _indented(title, "bold")
        yield part
        if note:
            yield _indented(note, "dim")

    def _text(self, text: Text, *, on_screen: bool, by: int) -> Iterator[Block]:
        note = text.style in ("note", "warning")
        most = MOST_NOTES * self._width
        for number, sentence in enumerate(text.lines):
            if text.style in ("command", "code"):
                yield Line(" " * INDENT + sentence)
            elif not note:
                yield _indented(sentence, TEXT_STYLES[text.style], by=by)
            elif not on_screen:
                yield _indented(f"note: {sentence}", TEXT_STYLES[text.style], by=by)
            else:
                if number >= MOST_NOTES or len(sentence) > most - len("note: "):
                    self._postponed.append(sentence)
                if number < MOST_NOTES:
                    line = shortened(f"note: {sentence}", most)
                    yield _indented(line, TEXT_STYLES[text.style], by=by)

    def _verdict(self, verdict: Verdict) -> Iterator[Block]:
        yield _heading(verdict.label)
        yield _indented(verdict.title, VERDICT_STYLES.get(verdict.kind, "bold"))
        card = next((card for card in self._document.findings if card.id == verdict.finding), None)
        if card is None and verdict.place is None:
            yield _indented(verdict.sentence)
            if verdict.change:
                yield _indented(verdict.change, "green")
            return
        rows: list[tuple[str, str | Line]] = []
        if verdict.place is not None:
            width = self._width - INDENT - len("change  ")
            rows.append(("where", cell_text(verdict.place, "place", width)))
        rows += _change(verdict.sentence, card.change if card else verdict.change)
        if verdict.gain:
            rows.append(("gain", verdict.gain))
        yield grid(rows, first="dim")

    def _finding(self, card: FindingCard) -> Iterator[Block]:
        if card is self._answered and not self._verbose:
            return
        number = self._numbers[id(card)]
        head = Line(f"{number}. [{card.severity}]", SEVERITY_STYLES[card.severity])
        yield Indented(head.append(Line(f" {card.title}", "bold")), by=1)
        if number <= MOST_IN_FULL or self._verbose:
            yield grid(list(self._finding_rows(card)), first="dim", indent=4)
            if self._verbose and card.trial is not None:
                yield _indented(f"to measure it: {card.trial.note}", "dim", by=4)
                if card.trial.command is not None:
                    yield Line(f"    {card.trial.command}", "green")
        if card is self._document.findings[-1] and self._is_brief():
            yield _indented(MORE)

    def _is_brief(self) -> bool:
        others = [card for card in self._document.findings if card is not self._answered]
        infos = any(card.severity == "info" for card in others)
        return not self._verbose and (infos or len(self._document.findings) > MOST_IN_FULL)

    def _finding_rows(self, card: FindingCard) -> Iterator[tuple[str, str | Line]]:
        brief = card.severity == "info" and not self._verbose
        saving = card.saving.sentence if card.saving is not None else card.no_saving
        yield card.id, card.advice if brief and card.saving is None else saving
        if brief:
            return
        yield from _change(card.advice, card.change)
        if self._verbose and card.evidence:
            figures = [
                f"{figure.label}: {shown(figure.value, figure.unit)}" for figure in card.evidence
            ]
            yield "evidence", ", ".join(figures)
        if self._verbose and card.saving is not None and card.saving.basis:
            yield "interval", card.saving.basis
        names = dict.fromkeys(cell_text(place, "place").plain for place in card.places)
        names.pop("", None)
        if new := [name for name in names if name not in card.title]:
            more = len(new) - MOST_PLACES
            ends = [f"and {more} more"] if more > 0 and not self._verbose else []
            yield "where", ", ".join([*new[: None if self._verbose else MOST_PLACES], *ends])


def _change(advice: str, change: str | None) -> Iterator[tuple[str, str | Line]]:
    """Yield what to do, in words and as code, since a line of code alone may say little."""
    yield "change", advice
    if change:
        yield "", Line(change, "green")


def _figures(part: Figures, indent: int) -> Block:
    if not part.large and all(_is_short(figure) for figure in part.figures):
        texts = (f"{figure.label} {shown(figure.value, figure.unit)}" for figure in part.figures)
        return _indented(", ".join(texts), by=indent)
    rows: list[Sequence[str | Line]] = []
    for figure in part.figures:
        value = Line(shown(figure.value, figure.unit), "bold" if part.large else "")
        if figure.note:
            value.append(Line(f" ({figure.note})", "not bold" if part.large else "dim"))
        rows.append((figure.label, value))
    return grid(rows, first="dim", indent=indent)


def _is_short(figure: Figure) -> bool:
    """Return whether a figure is a number without a note, which can share a line with others."""
    return figure.unit not in LEFT and figure.note is None


def _heading(title: str, note: str | None = None, width: int = WIDTH) -> Block:
    heading = Line(title.upper(), "bold")
    if not note:
        return Indented(heading, above=1)
    if len(title) + len(note) + 3 <= width:
        return Indented(heading.append(Line(f" ({note})", "not bold")), above=1)
    return Stack([Indented(heading, above=1), _indented(note, "dim")])


def _indented(text: str, style: str = "", by: int = INDENT, above: int = 0) -> Indented:
    return Indented(Line(text, style), by, above)
