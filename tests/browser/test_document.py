"""Tab and HTML page show what the document of a run says: verdict, findings, figures, units."""

import pytest

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.document import Bars, Column, Figures, Table
from lightning_gpuprof.report.format import column_decimals, shown
from lightning_gpuprof.report.html import render_html
from lightning_gpuprof.report.load import load_report

pytestmark = pytest.mark.browser

RUNS = ("char_lm/version_0", "gpu", "two_ranks", "h100/reads-in-a-loop", "h100/leak", "workers")
TEXTS = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
CELLS = (
    "return [...document.querySelectorAll(arguments[0])]"
    ".map(tr => [...tr.cells].map(td => td.textContent))"
)
NUMBERS = ("ns", "bytes", "bytes_per_s", "per_s", "frac", "change_frac", "count", "number")
IN_OTHER_VIEWS = ("operators", "kernels", "ranks", "memory", "charts")
OF_STEPS = ("slowest", "recorded_steps", "totals", "outside")


@pytest.fixture(autouse=True)
def _models_alone():
    """Savings have the intervals that the tab's own process gives them."""


@pytest.fixture(params=RUNS)
def run(request):
    return request.param


@pytest.fixture
def document(logs, run):
    return build_run(load_report(str(logs / run)))


@pytest.fixture(params=["tab", "html"])
def shown_page(request, run, logs, page, tmp_path):
    """The run's overview in the tab, then in a file."""
    if request.param == "tab":
        page.open(run)
        return page
    file = tmp_path / "report.html"
    file.write_text(render_html(str(logs / run)), encoding="utf-8")
    return request.getfixturevalue("file_page")(file)


def texts(page, css):
    return page.browser.run(TEXTS, css)


def test_the_overview_shows_the_document(shown_page, document):
    page = shown_page
    hero = " ".join(texts(page, ".hero"))
    assert document.verdict.label in hero
    assert document.verdict.title in hero
    if document.verdict.gain_short:
        assert document.verdict.gain_short in texts(page, ".hero .big")
    assert texts(page, ".finding h3") == [finding.title for finding in document.findings]
    ids = "return [...document.querySelectorAll('.finding')].map(e => e.dataset.finding)"
    assert page.browser.run(ids) == [finding.id for finding in document.findings]
    gains = [finding.saving.short if finding.saving else "" for finding in document.findings]
    assert texts(page, ".finding summary .gain-text") == gains
    for section in document.sections:
        if section.id.startswith(IN_OTHER_VIEWS) or section.id in OF_STEPS:
            continue
        for part in section.body:
            check_part(page, part)


def check_part(page, part):
    if isinstance(part, Figures):
        values = texts(page, ".big, .facts-line dd, .facts-list dd, .meter dd")
        for figure in part.figures:
            if figure.value is not None:
                assert shown(figure.value, figure.unit) in values, figure
    elif isinstance(part, Bars):
        rows = page.browser.run(CELLS, f"[data-table='{part.id}'] tbody tr")
        assert [row[0] for row in rows] == [bar.label for bar in part.bars]
        values = [shown(bar.value, part.unit) for bar in part.bars]
        assert all(value in row for row, value in zip(rows, values, strict=True))
        shares = [bar.frac for bar in part.bars if bar.frac is not None]
        fracs = [shown(frac, "frac", column_decimals(shares, "frac")) for frac in shares]
        assert all(any(frac in row for row in rows) for frac in fracs)
    elif isinstance(part, Table):
        check_table(page, part)


def check_table(page, table):
    columns = [column for column in table.columns if is_shown(column, table)]
    decimals = {
        column.key: column_decimals([row.get(column.key) for row in table.rows], column.unit)
        for column in columns
    }
    heads = f"[data-table='{table.id}'] thead button"
    assert texts(page, heads) == [column.label for column in columns]
    rows = page.browser.run(CELLS, f"[data-table='{table.id}'] tbody tr")
    assert rows or not table.rows
    shown_rows = [
        tuple(
            shown(row.get(column.key), column.unit, decimals[column.key])
            for column in columns
            if is_number(column)
        )
        for row in table.rows
    ]
    for cells in rows:
        numbers = tuple(
            cell for cell, column in zip(cells, columns, strict=True) if is_number(column)
        )
        assert numbers in shown_rows


def is_shown(column: Column, table: Table) -> bool:
    measured = any(row.get(column.key) not in (None, "") for row in table.rows)
    return column.detail != "verbose" and (measured or not table.rows)


def is_number(column: Column) -> bool:
    return column.unit in NUMBERS
