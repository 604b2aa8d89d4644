import re

import pytest
from markdown_it import MarkdownIt

from lightning_gpuprof.cli import main
from lightning_gpuprof.findings.model import Finding, Place, Range, Severity
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.report import markdown
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import Report, load_report

MS = 1_000_000


def report_markdown(report):
    return markdown.render(build_run(report))


@pytest.fixture
def report(make_session, write_run):
    """A report with the findings given instead of its own."""

    def make(*findings, **options):
        options = {"phases": {"forward": 5 * MS, "data_wait": 2 * MS}} | options
        loaded = load_report(write_run(make_session(**options)))
        return Report(**{**vars(loaded), "findings": findings})

    return make


def finding(**changed):
    fields = {
        "id": "host-sync",
        "severity": Severity.WARNING,
        "title": "2 syncs",
        "advice": "Wait for none.",
        "evidence": {},
        "saving_ns": Range(MS, 2 * MS),
        "confidence": 0.9,
    }
    return Finding(**(fields | changed))


def test_a_finding_is_an_entry_with_its_saving_place_and_change(report):
    where = Place(file="train.py", line=3, source="x | y")
    page = report_markdown(report(finding(places=(where,), change="a = 1\nb = 2")))
    assert (
        "1.  **2 syncs** (`host-sync`, warning)\n\n"
        "    - saves 1.0 to 2.0 ms per step (14 to 29%), 90% sure of the cause, "
        "interval not tested\n"
        "    - where: `train.py:3` (`x | y`)\n"
        "    - change: Wait for none.\n\n"
        "    ```python\n    a = 1\n    b = 2\n    ```\n"
    ) in page


def test_read_as_markdown_a_change_belongs_to_its_finding_and_nothing_else_is_markup(report):
    hostile = finding(title="<b> *a* | `b` __init__ [x](y)", advice="# ``` 1. x", change="```\nx")
    page = report_markdown(report(*[hostile] * 6, parts={"forward/a|b": MS}))
    tokens = MarkdownIt().enable("table").parse(page)
    fences = [one for one in tokens if one.type == "fence" and one.info == "python"]
    assert [(one.content, one.level) for one in fences] == [("```\nx\n", 2)] * 6
    assert sum(one.type == "ordered_list_open" for one in tokens) == 1
    text = [one for one in tokens if one.type == "inline" and "init" in one.content]
    kinds = {child.type for one in text for child in one.children}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "code_inline"}
    rows = [one for one in tokens if one.type == "tr_open"]
    assert len(rows) == page.count("\n| ")


def test_the_phases_are_a_table(report):
    page = report_markdown(report(parts={"data_wait/a|b": MS}))
    assert (
        "mean per steady step, host clock: 7.00 ms\n\n|  | Mean | Share |\n|---|--:|--:|\n"
        "| Data wait | 2.00 ms | 29% |\n| &emsp;a\\|b | 1.00 ms | 14% |\n"
        "| Forward | 5.00 ms | 71% |\n"
    ) in page


def test_after_the_first_findings_titles_are_enough(report):
    page = report_markdown(report(*[finding()] * 8))
    assert page.count("**2 syncs**") == 8
    assert page.count("- change: Wait for none.") == 6


def test_where_nothing_is_worth_a_change_that_is_said(report):
    page = report_markdown(report(phases={"forward": 5 * MS}))
    assert "**Verdict: Nothing here holds training back much**" in page


def test_warm_up_alone_is_too_short(report):
    page = report_markdown(report(steps=3, flags=1))
    assert "**Verdict: Too short to say what to change**" in page
    assert "mean per step, including warm-up, host clock: 7.00 ms" in page


def test_a_session_without_steps_says_why(make_session, write_run):
    run = write_run(make_session({}, steps=0))
    assert "**Verdict: No training step was recorded**" in report_markdown(load_report(run))


def test_report_markdown_has_no_colours_and_no_drawn_lines(make_session, write_run, capsys):
    run = write_run(
        make_session({"forward": MS, "data_wait": 9 * MS}, loader=Loader(num_workers=0))
    )
    assert main(["report", run, "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## Profile of `")
    assert "(`data-wait`, critical)" in out
    assert "    ```python\n    " in out
    assert not re.search("[\x1b\u2500-\u259f]", out)


@pytest.mark.parametrize(
    "command",
    [
        "compare a b --json",
        "report run --json",
        "report run --html x.html",
        "report run --view run",
    ],
)
def test_one_form_at_a_time(command, capsys):
    with pytest.raises(SystemExit) as exited:
        main([*command.split(), "--markdown"])
    assert exited.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err
