import html
import importlib
import re
import sys
from types import SimpleNamespace

import pytest

import lightning_gpuprof
from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import ConfigError

MS = 1_000_000


def test_python_gets_the_text_that_the_command_prints(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    main(["report", run])
    assert str(lightning_gpuprof.report(run)) == capsys.readouterr().out


def test_the_function_and_the_package_of_its_name_do_not_hide_each_other(
    make_session, write_run, monkeypatch
):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    text = str(lightning_gpuprof.report(run))
    package = importlib.import_module("lightning_gpuprof.report")
    monkeypatch.setattr(lightning_gpuprof, "report", package)
    assert str(lightning_gpuprof.report(run)) == text
    assert importlib.import_module("lightning_gpuprof.report.document").SCHEMA_VERSION


def test_python_may_ask_for_another_session_and_for_more(make_session, write_run):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    run = write_run(two)
    assert "median 1.00 ms" in str(lightning_gpuprof.report(run, session=0))
    verbose = lightning_gpuprof.report(run, verbose=True)
    assert len(str(verbose)) > len(str(lightning_gpuprof.report(run)))


@pytest.fixture
def found(make_session, write_run):
    phases = {"data_wait": 6 * MS, "forward": 3 * MS}
    return lightning_gpuprof.report(write_run(make_session(phases)))


def test_a_notebook_shows_the_first_screen_of_the_page(found):
    shown = found._repr_html_()
    text = html.unescape(re.sub("<[^>]*>", "\n", shown))
    verdict, document = found.document.verdict, found.document
    assert {verdict.title, verdict.sentence} <= set(text.splitlines())
    assert {finding.title for finding in document.findings} <= set(text.splitlines())
    assert {"Data wait", "Forward"} <= set(text.splitlines())


def test_names_of_a_program_are_text_in_a_notebook(make_session, write_run):
    path = write_run(make_session({"forward": MS}), name="<img src=x>")
    assert "<img" not in lightning_gpuprof.report(path)._repr_html_()


def test_its_findings_and_phases_are_values(found):
    assert found.findings[0].id == "data-wait"
    assert found.phases["forward"].value == 3 * MS
    assert found.memory is None


def test_its_tables_are_data_frames_where_pandas_is_there(found, monkeypatch):
    class Frame(list):
        def set_index(self, key):
            return {row[key]: row for row in self}

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))
    assert found.to_pandas()["data_wait"]["frac"] == pytest.approx(2 / 3)
    assert found.to_pandas("findings")[0]["id"] == "data-wait"
    assert found.to_pandas("totals")[0]["total_ns"] == 600 * MS


@pytest.mark.parametrize(
    ("table", "said"), [("phases", "pip install pandas"), ("steps", "no table. Pass one of")]
)
def test_why_there_is_no_data_frame_is_one_sentence_in_a_notebook_too(
    found, table, said, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=said) as raised:
        found.to_pandas(table)
    assert raised.value._render_traceback_() == [f"ConfigError: {raised.value}"]
