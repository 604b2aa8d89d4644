"""Every view of every kind of run says what a person came for: numbers, not pixels."""

import pytest

pytestmark = pytest.mark.browser

CPU = {
    "roofline": (".empty", "This trace holds no device events: a roofline needs kernels."),
    "memory": (".empty", "This run trained on a CPU: there is no device memory to measure."),
    "ranks": (".empty", "This run has one rank: there is nothing to compare."),
}
NO_TRACE = (".empty", "No profiler cycle has finished")
ONE_RANK = {"ranks": CPU["ranks"], "memory": (".empty", "Device memory was not measured")}
WHAT_EACH_VIEW_SAYS = {
    "char_lm/version_0": {
        **CPU,
        "overview": (".hero", "55% of each step (23.9 ms) waits for data"),
        "steps": (".facts-line", "47.7 ms"),
        "timeline": (".card", "1 events over 5.00 \u00b5s"),
        "operators": ("tr", "aten::addmm\t864"),
        "compare": (".hero", "597 steady steps against"),
        "traces": (".traces li", "Rank 0, cycle 1\nsteps 8 to 10"),
    },
    "nvidia": {
        **ONE_RANK,
        "overview": (".hero", "GPU busy\n100%"),
        "steps": (".card", "Steps 0 to 199 of 200, one by one."),
        "timeline": (".card", "Busy 84% of 465 ms in 6 whole steps"),
        "operators": (".meter", "On tensor cores\n81%"),
        "roofline": (".card", "Peaks of NVIDIA A100"),
        "compare": (".hero", "197 steady steps against"),
        "traces": (".traces li", "1.69 MiB"),
    },
    "amd": {
        **ONE_RANK,
        "overview": (".hero", "GPU busy\n-"),
        "steps": (".card", "Steps 0 to 199 of 200, one by one."),
        "timeline": (".card", "23,175 events over 3.39 s"),
        "operators": (".meter", "Launch call\n3.13 \u00b5s"),
        "roofline": (".card", "Peaks of AMD"),
        "compare": (".hero", "197 steady steps against"),
        "traces": (".traces li", "538 KiB"),
    },
    "two_ranks": {
        "overview": (".hero", "GPU busy\n100%"),
        "steps": (".card", "of 300"),
        "timeline": (".phases tr", "27.4%\t28.2 ms"),
        "operators": (".meter", "Device busy\n99%"),
        "roofline": CPU["roofline"],
        "memory": (".card", "rank 1 of the 2 that measured their memory has the least room"),
        "ranks": ("tbody tr", "9.40 ms\t500 \u00b5s"),
        "compare": (".hero", "297 steady steps against"),
        "traces": (".traces li", "Rank 1, cycle 0"),
    },
    "hostile <b>run</b>": {
        **CPU,
        "overview": (".finding h3", "<img src=x onerror="),
        "steps": ("tr", "<img src=x onerror="),
        "timeline": (".card", "1 events over 5.00 \u00b5s"),
        "operators": ("td.name", "</script><script>alert(1)</script>"),
        "compare": (".facts-line", "hostile <b>run</b>"),
        "traces": (".traces li", "../../../../../../etc/passwd"),
    },
    "killed": {**CPU, **dict.fromkeys(("timeline", "operators", "roofline", "traces"), NO_TRACE)},
    "bare": {
        "overview": (".hero", "No training step was recorded"),
        "steps": (".empty", "This run recorded no step."),
    },
}


@pytest.mark.parametrize("run", WHAT_EACH_VIEW_SAYS)
def test_every_view_says_what_a_person_came_for(page, run, request):
    if run in ("nvidia", "amd"):
        request.getfixturevalue("shared_traces")
    page.open(run)
    for view, (css, says) in WHAT_EACH_VIEW_SAYS[run].items():
        page.click(".tab", view.capitalize())
        page.wait_for("h1", view.capitalize())
        page.wait_for(css, says)
    assert page.browser.run("return document.querySelectorAll('img, b').length") == 0
    assert "pwned" not in page.browser.run("return document.title + parent.document.title")


def test_every_view_says_in_one_sentence_what_it_shows_and_by_which_clock(page):
    page.open("two_ranks")
    for view in WHAT_EACH_VIEW_SAYS["two_ranks"]:
        page.click(".tab", view.capitalize())
        page.wait_for("h1", view.capitalize())
        about = page.wait_for(".view-head .note")
        assert "clock" in about or view == "memory"
        assert about.endswith(".")


def test_a_component_has_its_host_and_device_time_below_its_phase(page):
    page.open("gpu")
    rows = page.rows(".phases")
    at = next(i for i, row in enumerate(rows) if row[0] == "encoder")
    assert rows[at - 1][0] == "Forward"
    assert rows[at][2:] == ["19.1%", "5.03 ms", "5.81 ms"]
    indent = (
        "return [...document.querySelectorAll('.phases tbody tr')].slice(arguments[0], "
        "arguments[0] + 2).map(row => parseInt(getComputedStyle(row.cells[0]).paddingLeft))"
    )
    assert page.browser.run(indent, at - 1) == [0, 24]


def test_numbers_stand_behind_each_chart_and_stay_open_over_a_refresh(page):
    page.open("char_lm/version_0", view="steps")
    page.click("summary", "Show as a table")
    region = "[aria-label='Host time of each step by phase, stacked, in numbers']"
    assert page.wait_for(f"{region} tbody tr").startswith("0\t24.2 ms\t217 \u00b5s\t185 ms")
    page.browser.run("document.body.classList.add('dark-mode')")
    page.browser.wait("return document.documentElement.dataset.theme === 'dark'")
    page.wait_for(f"details[open] {region} tbody tr")
    page.open("gpu", view="memory")
    page.click("summary", "Show as a table")
    page.wait_for("[aria-label='Device memory over the run, in numbers'] tr", "49\t22.0 GiB")


def test_the_keyboard_stays_where_it_is_when_a_view_is_drawn_anew(page):
    page.open("two_ranks")
    page.browser.run("[...document.querySelectorAll('.tab')][3].focus()")
    page.browser.type(".tab:focus", "\n")
    page.wait_for("h1", "Operators")
    assert page.browser.run("return document.activeElement.textContent") == "Operators"
    page.browser.type("input[type=search]", "soft")
    page.browser.run("window.before = document.activeElement")
    page.browser.run("parent.document.body.classList.add('dark-mode')")
    page.browser.wait(
        "return !window.before.isConnected && document.activeElement.type === 'search'"
    )
    page.browser.type("input[type=search]", "max")
    page.wait_for(".table-tools", "1 of 49 rows")


@pytest.mark.usefixtures("shared_traces")
def test_a_search_is_seen_in_the_timeline_also_inside_of_merged_blocks(page):
    page.open("nvidia", view="timeline")
    page.browser.wait("return document.querySelector('.tl-canvas')?.timeline.loader.blocks && 1")
    page.browser.type(".table-tools input", "reduce\n")
    loaded = "document.querySelector('.tl-canvas').timeline.loader.blocks"
    page.browser.wait(f"return {loaded}.text === 'reduce'")
    hits = page.browser.run(
        f"const b = {loaded};"
        "return [[...b.hit].filter(hit => hit).length, b.hit.length,"
        "        [...b.hit].filter((hit, i) => hit && b.count[i] > 1).length]"
    )
    assert 0 < hits[0] < hits[1]
    assert hits[2] > 0
