"""The views of one run each, on runs that differ in what was measured."""

import pytest

pytestmark = pytest.mark.browser


def test_host_and_device_time_of_a_phase_stand_side_by_side(page):
    page.open("gpu")
    assert "Device, including idle" in page.wait_for(".card", "Where a step goes")
    backward = next(row for row in page.rows(".phases") if row[0] == "Backward")
    assert backward[3:] == ["14.0 ms", "15.3 ms"]


def test_the_slowest_steps_tell_what_differed_and_open_their_surroundings(page):
    page.open("char_lm/version_0", view="steps")
    card = page.wait_for(".card", "Slowest steps")
    assert "Validation\t60.0 ms\tvalidation, checkpoint" in card
    page.click("td button.link", page.rows("[data-table='slowest']")[0][0])
    page.wait_for("p.muted", "one by one")


def test_memory_is_shown_over_the_run_by_kind_with_the_batch_size_that_fills_it(page):
    page.open("gpu", view="memory")
    said = page.wait_for(".card", "fragmentation 25% (inactive split of reserved), 0 retries")
    assert "large pool" in said
    page.wait_for(".card", "At most 22.0 GiB of 80.0 GiB reserved")
    row = next(row for row in page.rows(".phases") if row[0] == "Optimizer state")
    assert row[-1] == "6.00 GiB"
    page.wait_for(".card", "120 instead of 32: 100 to 136 fill the target band")


def test_a_leak_is_said_first_with_its_line_and_no_batch_size_is_advised(page):
    page.open("h100/leak", view="memory")
    said = page.wait_for(".hero", "Device memory grows by 4.00 MiB per step, full in 20,192 steps")
    assert "/home/repo/tests/gpu/test_promises_on_gpu.py:54" in said
    assert "Batch size" not in page.text()


@pytest.mark.parametrize("view", ["overview", "memory"])
def test_out_of_memory_is_told_with_what_was_held_and_one_change(page, view):
    page.open("h100/out-of-memory", view=view)
    said = page.wait_for(".hero.failed", "Out of memory: 4.00 TiB more did not fit in 79.2 GiB")
    assert "One tensor is larger than the whole device" in said
    if view == "memory":
        page.wait_for(".hero.failed", "It held 65.0 MiB")


def test_operators_are_per_step_and_kernel_names_short(page):
    page.open("h100/fp32-products", view="operators")
    page.wait_for("td.name", "Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>")
    heads = "return [...document.querySelectorAll('thead button')].map(e => e.textContent)"
    assert page.browser.run(heads)[:3] == ["Name", "Per step", "% of step"]
    whole = "return [...document.querySelectorAll('td.name')].map(e => e.title)"
    assert any(title.startswith("void cutlass::Kernel2<") for title in page.browser.run(whole))


def test_the_roofline_begins_with_its_conclusion_and_names_the_largest_dots(page):
    page.open("nvidia", view="roofline")
    page.wait_for(".card h2", "of the placed time is bound by")
    page.browser.wait("return document.querySelectorAll('.js-plotly-plot .textpoint').length")
    texts = "return [...document.querySelectorAll('.textpoint')].map(e => e.textContent)"
    assert len([text for text in page.browser.run(texts) if text]) == 3


def test_the_tooltip_of_a_step_has_its_total(page):
    page.open("char_lm/version_0", view="steps", **{"from": "0", "to": "50"})
    plots = "return document.querySelector('.js-plotly-plot')?.data?.map(one => [one.name, one.y])"
    drawn = dict(page.browser.wait(plots))
    phases = [drawn[name] for name in drawn if name not in ("total", "slowest step")]
    of_marks = [one for one in phases if len(one) == len(drawn["total"])]
    assert drawn["total"][7] == pytest.approx(sum(one[7] for one in of_marks), rel=0.001)


def test_each_rank_has_a_lane_and_the_slow_one_is_named(page):
    page.open("two_ranks", view="ranks")
    said = page.wait_for(".card", "Ranks differ most in data wait")
    assert "rank 1 takes 8.99 ms longer than the others" in said
    assert len(page.browser.run("return [...document.querySelectorAll('.rank-lane')]")) == 2
    assert page.wait_for(".rank-lane.slow") == "rank 1 slow"


def test_ranks_without_records_are_named(page):
    page.open("lacking", view="ranks")
    said = page.wait_for(".card", "Records of 2 of 3 ranks are here (missing: 2")
    assert "Waits for others" not in said


def test_all_ranks_traces_are_compared_by_a_process_and_shown(page):
    page.open("gloo-4", view="ranks")
    page.wait_for(".card", "Rank 1 comes last")
    rows = page.rows("[data-table='traces_collectives']")
    assert {row[0] for row in rows} == {"all_reduce", "barrier", "broadcast"}
    assert [row[0] for row in page.rows("[data-table='traces_ranks']")] == ["0", "1", "2", "3"]
    label = "return getComputedStyle(document.querySelector('.verdict .label')).display"
    assert page.browser.run(label) == "block"
    links = "return document.querySelectorAll('[data-table=traces_ranks] .link').length"
    assert page.browser.run(links) == 0
    page.click(".tab", "Overview")
    page.wait_for(".hero", "Rank 1 comes last")


def test_of_many_ranks_the_lanes_are_those_that_others_wait_for(page):
    page.open("many_ranks", view="ranks")
    said = page.wait_for(".card", "Rank 27 delays each step by 9.")
    assert "32 of 40 ranks: the first, and those that the others wait for most" in said
    assert len(page.browser.run("return [...document.querySelectorAll('.rank-lane')]")) == 32
    assert "Waits for others" in said


def test_two_runs_are_compared_with_an_interval(page):
    page.open("char_lm/version_0", view="compare", base="gpu")
    page.wait_for(".hero", "slower: 64% more time per ")
    assert any(row[0] == "Data wait" for row in page.rows("table"))
    page.wait_for(".card", "data-wait")


def test_a_run_is_compared_with_the_last_one_of_its_own_model_and_is_no_faster_than_another(page):
    page.open("two_models/version_2", view="compare")
    page.wait_for(".facts-line", "two_models/version_0")
    verdict = "return document.querySelector('.hero .title').dataset.verdict"
    assert page.browser.run(verdict) == "faster"
    page.open("two_models/version_2", view="compare", base="two_models/version_1")
    page.wait_for(".facts-line", "two_models/version_1")
    assert "nother model (class Gan -> CharTransformer" in page.wait_for(".hero")
    page.wait_for(".notice", "the times say nothing about it")
    assert page.browser.run(verdict) == "other_model"
    assert "two_models/version_1 (another model)" in page.text()


def test_operators_come_with_kernels_launch_costs_and_a_call_tree(page):
    page.open("traced", view="operators")
    page.wait_for(".meter", "Launch call")
    page.wait_for(".card", "Tensor cores")
    boxes = "return [...document.querySelectorAll('.flame-box')].map(e => e.title)"
    page.browser.wait(boxes)
    whole = page.browser.run(boxes)
    assert any(title.startswith("ProfilerStep: ") for title in whole)
    page.click(".flame-box", "aten::mm")
    assert any("aten::mm" in title for title in page.browser.run(boxes))
    assert len(page.browser.run(boxes)) < len(whole)


SMALL_TEXT = (
    "return [...document.querySelectorAll('.gp *')].filter(e => e.getClientRects().length"
    " && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())"
    " && parseFloat(getComputedStyle(e).fontSize) < 13).map(e => e.outerHTML.slice(0, 120))"
)


TABS = "[...document.querySelectorAll('.tab')]"
DRAWN = (
    "return document.querySelector('.tab[aria-current]')?.textContent === arguments[0]"
    " && document.querySelector('h1')?.textContent === arguments[0]"
    " && document.querySelector('.card, .empty') !== null"
)
OVERFLOW = (
    "const width = document.documentElement.clientWidth;"
    "const scrolls = e => e"
    " && (getComputedStyle(e).overflowX !== 'visible' || scrolls(e.parentElement));"
    "return [...document.querySelectorAll('.gp *')]"
    ".filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement))"
    ".map(e => e.outerHTML.slice(0, 120))"
)
CURRENT_TAB_IS_IN_VIEW = (
    "const [tab, tabs] = ['.tab[aria-current]', '.tabs'].map(css =>"
    " document.querySelector(css).getBoundingClientRect());"
    "return tab.left >= tabs.left && tab.right <= tabs.right"
)
CUT_TABLES = "return [...document.querySelectorAll('.scroll[data-cut]')].map(e => e.ariaLabel)"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 900, 1360, 2560])
@pytest.mark.parametrize("run", ["h100/fp32-products", "two_ranks"])
def test_no_view_overflows_the_page_or_has_text_below_thirteen_pixels(
    page, screen, run, width, theme
):
    screen(width)
    page.open(run)
    page.browser.run(f"document.body.classList.toggle('dark-mode', {str(theme == 'dark').lower()})")
    views = page.browser.run(f"return {TABS}.map(e => e.textContent)")
    assert len(views) == 10
    for view in views:
        page.browser.run(f"{TABS}.find(e => e.textContent === arguments[0]).click()", view)
        page.browser.wait(DRAWN, view)
        assert page.browser.run(OVERFLOW) == []
        assert page.browser.run(SMALL_TEXT) == []
        assert page.browser.run(CURRENT_TAB_IS_IN_VIEW)
        if width >= 1360 and view in ("Operators", "Roofline"):
            assert page.browser.run(CUT_TABLES) == []


def test_a_table_that_is_cut_says_so(page, screen):
    screen(420)
    page.open("h100/fp32-products", view="operators")
    page.wait_for("[data-cut='right'] + .cut-note", "scroll it sideways")
    page.browser.run("document.querySelector('.scroll').scrollLeft = 1e6")
    page.browser.wait("return document.querySelector('.scroll').dataset.cut === 'left'")
    screen(1360)
    page.browser.wait("return !document.querySelector('.scroll[data-cut]')")


def test_no_column_is_empty_beside_a_long_one(page):
    page.open("h100/fp32-products")
    page.wait_for(".columns")
    ends = page.browser.run(
        "return [...document.querySelectorAll('.columns')].map(pair => [...pair.children]"
        ".map(column => column.lastElementChild.getBoundingClientRect().bottom))"
    )
    assert ends
    assert all(abs(left - right) < 400 for left, right in ends)


def test_on_a_narrow_page_the_cause_has_the_width_of_the_page(page):
    page.browser.resize(900, 900)
    try:
        page.open("char_lm/version_0")
        page.wait_for(".hero-cause", "waits for data")
        width = "return document.querySelector(arguments[0]).clientWidth"
        assert page.browser.run(width, ".hero-cause") > 0.9 * page.browser.run(width, ".strip")
    finally:
        page.browser.resize(1440, 900)


FINDINGS_LEAD_TO = [
    ("h100/reads-in-a-loop", ".finding .where button", "timeline", "view_ns="),
    ("h100/fp32-products", ".finding .where button", "operators", "find="),
    ("h100/leak", "[data-finding='memory-growth']:not([open]) summary", "memory", "view=memory"),
    ("many_ranks", ".finding .where button", "ranks", "view=ranks"),
]


@pytest.mark.parametrize(("run", "button", "view", "address"), FINDINGS_LEAD_TO)
def test_a_finding_leads_to_its_place(page, run, button, view, address):
    page.open(run)
    page.wait_for(".finding")
    page.click(button)
    if "summary" in button:
        page.click(".finding[data-finding='memory-growth'] .where button")
    page.wait_for("h1", view.capitalize())
    assert address in page.browser.run("return location.hash")


def test_all_can_be_reached_by_keyboard_in_reading_order(page):
    page.open("two_ranks", view="timeline")
    order = page.browser.run(
        "return [...document.querySelectorAll('a[href], button, select, input, [tabindex=\"0\"]')]"
        ".filter(e => e.offsetParent && e.tabIndex >= 0)"
        ".map(e => e.id || e.textContent.trim() || e.type)"
    )
    assert order[:4] == ["gp-run", "gp-rank", "Overview", "Steps"]
    named = page.browser.run(
        "return [...document.querySelectorAll('button, select, input, [role=img], [role=region]')]"
        ".filter(e => e.offsetParent && !(e.textContent.trim() || e.getAttribute('aria-label')"
        " || e.labels?.length)).map(e => e.outerHTML.slice(0, 200))"
    )
    assert named == []


def test_a_memory_snapshot_is_analysed_in_a_process_and_names_the_lines_that_hold_it(page):
    page.open("two_cycles", view="memory")
    assert "4.00 GiB" in page.wait_for(".card", "Device 0")
    (first, second) = page.rows("[data-table='memory_sites']")
    assert (first[0], first[2]) == ("/home/me/train.py:7", "3.00 GiB")
    assert second[0] == "/home/me/train.py:9"
    # Of a path that is too long its end stays, which has the file and the line.
    cell = "[data-table='memory_sites'] td"
    style = f'const s = getComputedStyle(document.querySelector("{cell}"));'
    shown = page.browser.run(f"{style} return [s.direction, s.textAlign, s.textOverflow]")
    assert shown == ["rtl", "left", "ellipsis"]


def test_the_run_that_began_last_is_shown_where_none_is_picked(page):
    page.open()
    first = page.browser.run("return document.getElementById('gp-run').options[0].value")
    assert page.browser.run("return document.getElementById('gp-run').value") == first


def test_trials_stand_beside_the_findings_predicted_against_measured(page):
    page.open("two_cycles")
    page.wait_for(".card", "measured together: 40% less per step")
    page.wait_for(".card", "Needed no trial, or failed")
    row = next(row for row in page.rows("[data-table='trials']") if "num_workers=2" in row[0])
    assert {"3.8 to 4.2 ms", "10.0 ms", "6.00 ms"} <= set(row)
    rows = page.rows("[data-table='trial_effects']")
    effects = next(row for row in rows if "num_workers=2" in row[0])
    assert {"3.0 to 5.0 ms", "bit-equal"} <= set(effects)
    page.wait_for(".finding", "measured (num_workers=2)")


def test_a_slow_down_and_its_captures_are_marked_over_the_steps(page):
    page.open("slowing", view="steps")
    page.wait_for("ul.legend", "slower from step 800 in callbacks: 19.5 ms instead of 13.5 ms")
    drawn = "return document.querySelector('.js-plotly-plot')?.layout?.shapes"
    shapes = page.browser.wait(drawn)
    assert [(shape["type"], shape["x0"]) for shape in shapes] == [
        ("line", 800),
        ("rect", 860),
        ("rect", 1150),
    ]
    lines = "return document.querySelectorAll('.js-plotly-plot .shapelayer path').length"
    page.browser.wait(f"{lines} === 3 || null")
    before = page.wait_for(".card", "Before and during the slow-down")
    assert "train.py:31" in before
    assert "process memory\t1.00 GiB\t2.00 GiB\t+100.0%" in before
    page.click("ul.legend button.link", "capture 0 because of a slow-down, steps 860 to 862")
    page.wait_for("h1", "Timeline")
    address = page.browser.run("return decodeURIComponent(location.hash)")
    assert "p.gpuprof.trace=rank0-cycle1.pt.trace.json.gz" in address


def test_a_slow_down_in_a_table_opens_the_steps_around_it(page):
    page.open("slowing", view="steps")
    page.wait_for(".card", "Slow-downs")
    page.click("[data-table='slow_downs'] button.link", "800")
    page.wait_for("p.muted", "Steps 775 to 825")


def test_two_runs_of_the_table_are_compared(page):
    page.open("gpu", view="runs")
    page.browser.wait("return document.querySelectorAll('[data-table=runs] tbody tr').length > 20")
    page.browser.wait("return !document.querySelector('.card-head .note')")  # all are read
    page.browser.type("input[type=search]", "two_models")
    rows = page.rows("[data-table='runs']")
    assert [row[0] for row in rows] == [f"two_models/version_{number}" for number in (2, 1, 0)]
    assert all(row[4].endswith(" ms") for row in rows)
    page.click("[aria-label='Select two_models/version_0']")
    page.wait_for("button:disabled", "1 selected")
    page.click("[aria-label='Select two_models/version_2']")
    page.click(".button", "Compare the two")
    page.wait_for(".facts-line", "two_models/version_2")
    assert "base=two_models%2Fversion_0" in page.browser.run("return location.hash")


def test_a_run_of_the_table_is_opened_and_names_are_sorted_as_people_sort_them(page):
    page.open("gpu", view="runs")
    page.browser.wait("return !document.querySelector('.card-head .note')")
    page.click("[data-table='runs'] thead button", "Run")
    names = [row[0] for row in page.rows("[data-table='runs']")]
    assert names.index("two_models/version_0") < names.index("two_models/version_1")
    page.click("[data-table='runs'] .link", "two_ranks")
    page.wait_for("h1", "Overview")
    assert page.browser.run("return document.getElementById('gp-run').value") == "two_ranks"
