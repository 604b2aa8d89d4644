"""What a person sees in an HTML report opened from disk."""

import re

import pytest

from lightning_gpuprof.report.html import render_html

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def reports(made_runs, logs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    for name, run in {"demo": "char_lm/version_0", "hostile": "hostile <b>run</b>"}.items():
        (folder / f"{name}.html").write_text(render_html(str(logs / run)), encoding="utf-8")
    return folder


@pytest.fixture
def report(chromium, reports, file_page):
    return lambda name: file_page(reports / f"{name}.html")


def test_the_same_views_open_from_disk_with_charts_and_without_a_network(report):
    page = report("demo")
    page.wait_for(".hero", "of each step (23.9 ms) waits for data")
    page.browser.wait("return document.querySelectorAll('.chart .trace').length >= 8")
    page.click(".tab", "Operators")
    page.wait_for("td.name", "aten::addmm")
    assert page.browser.run("return location.hash") == "#p.gpuprof.view=operators"


def test_a_range_of_steps_is_cut_out_of_what_the_file_holds(report):
    page = report("demo")
    page.click(".tab", "Steps")
    page.wait_for("p.muted", "Steps 0 to 599 of 600, one by one.")
    page.browser.run("location.hash = '#p.gpuprof.view=steps&p.gpuprof.from=100&p.gpuprof.to=200'")
    page.wait_for("p.muted", "Steps 100 to 199 of 600, one by one.")


def test_the_gain_is_worded_as_the_document_has_it(reports, file_page):
    html = (reports / "demo.html").read_text(encoding="utf-8")
    longer = reports / "longer.html"
    html = re.sub(r'"gain":"[^"]*"', '"gain":"per step, between epochs"', html)
    html = re.sub(r'"gain_short":"[^"]*"', '"gain_short":"up to 90 ms"', html)
    longer.write_text(html, encoding="utf-8")
    hero = file_page(longer).wait_for(".hero", "Saves")
    assert "up to 90 ms" in hero
    assert "per step, between epochs" in hero


def test_on_paper_a_dark_report_is_light(report):
    page = report("demo")
    page.browser.run("document.documentElement.dataset.theme = 'dark'")
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert page.browser.run(ground) == "rgb(22, 24, 28)"
    page.browser.emulate_media("print")
    assert page.browser.run(ground) == "rgb(246, 247, 249)"
    page.browser.emulate_media("")


def test_hostile_names_stay_text_in_a_file_too(report):
    page = report("hostile")
    page.wait_for(".finding h3", "<img src=x onerror=")
    assert page.browser.run("return document.querySelectorAll('img').length") == 0
    assert "pwned" not in page.browser.run("return document.title")
