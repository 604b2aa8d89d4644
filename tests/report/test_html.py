import json
import re

import pytest
from document_parts import read_document, read_sections, table_in

from lightning_gpuprof.report import html
from lightning_gpuprof.report.clean import printable
from lightning_gpuprof.report.html import bundle, render_html

MOST_BYTES = 4_500_000


def data(page: str):
    return json.loads(re.search(r'id="gp-data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def demo(made_runs, tmp_path_factory):
    return render_html(str(made_runs.demo_run(tmp_path_factory.mktemp("demo"))))


def test_the_file_is_smaller_than_mail_takes(demo):
    assert len(demo.encode()) < MOST_BYTES


def test_the_file_names_nothing_to_fetch(demo):
    outside = re.sub(r'<script type="text/plain".*?</script>', "", demo, flags=re.DOTALL)
    assert re.findall(r"<(?:link|img|script|iframe)[^>]+(?:src|href)=", outside) == []
    assert "default-src &#x27;none&#x27;" in outside


def test_the_file_holds_what_the_tab_would_ask_for(demo):
    answers = data(demo)
    assert read_document(answers["report"]).findings[0].id == "data-wait"
    assert answers["steps"]["steps"] == 600
    assert answers["operators&trace=rank0-cycle1.pt.trace.json.gz"] == {"same_as": "operators"}
    sections = answers["operators&trace=rank0-cycle0.pt.trace.json.gz"]["sections"]
    assert table_in(read_sections(sections), "operators").rows


def test_the_largest_answers_about_cycles_are_left_out_where_the_file_would_grow_too_large(
    made_runs, tmp_path, monkeypatch
):
    run = str(made_runs.demo_run(tmp_path))
    monkeypatch.setattr(html, "MAX_DATA_BYTES", 30_000)
    answers = data(render_html(run))
    assert "Left out" in answers["operators"]["error"]
    assert read_document(answers["report"]).findings


def test_the_file_holds_the_reports_rank_and_compares_all(made_runs, tmp_path):
    answers = data(render_html(str(made_runs.two_rank_run(tmp_path))))
    assert [line["rank"] for line in answers["run"]["ranks"]] == [0]
    assert [lane["rank"] for lane in answers["ranks"]["lanes"]] == [0, 1]


def test_no_name_ends_its_script_or_starts_an_element(made_runs, tmp_path):
    hostile = render_html(str(made_runs.hostile_run(tmp_path)))
    assert hostile.count("<script") == 3
    assert "<img" not in hostile
    assert "\u202e" not in hostile
    sections = read_sections(data(hostile)["operators"]["sections"])
    names = [row["name"] for row in table_in(sections, "operators").rows]
    assert names == [printable(name, line_break=" ") for name in made_runs.HOSTILE_NAMES]


def test_a_reader_without_scripts_gets_the_report_as_text(demo):
    assert "waits for data" in re.search(r"<noscript>(.*?)</noscript>", demo, re.DOTALL)[1]


def test_modules_are_joined_in_the_order_they_need_each_other(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.js").write_text('import { one as two } from "./sub/b.js";\nuse(two);\n')
    (tmp_path / "sub/b.js").write_text("export const one = 1;\nexport async function f() {}\n")
    script = bundle(tmp_path, "a.js")
    assert "return { one, f };" in script
    assert "const { one: two } = m0;" in script
    assert script.index("// sub/b.js") < script.index("// a.js")


def test_comments_with_lines_of_their_own_are_left_out(tmp_path):
    comments = "/** What it does.\n * @param {string} a\n */\n", "  // why\n"
    code = 'f("/*", a /* kept */);\n', "g(); // why\n"
    (tmp_path / "a.js").write_text("".join((comments[0], code[0], comments[1], code[1])))
    script = bundle(tmp_path, "a.js")
    assert "".join(code) in script
    assert "What it does" not in script


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('import { x } from "./a.js";\n', "in a cycle"),
        ("export default 1;\n", "cannot be bundled: export default 1"),
        ('import * as b from "./b.js";\n', "cannot be bundled: import"),
    ],
)
def test_a_form_that_cannot_be_bundled_is_named(tmp_path, text, says):
    (tmp_path / "a.js").write_text(text)
    with pytest.raises(ValueError, match=re.escape(says)):
        bundle(tmp_path, "a.js")
