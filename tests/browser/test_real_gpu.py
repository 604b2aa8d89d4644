"""What the tab shows of runs on an H100 (tests/data/h100)."""

import pytest

pytestmark = pytest.mark.browser


def canvas_says(page, text):
    """Collect what is written on the timeline's canvas while it is painted, until a text is."""
    page.browser.run(
        "window.said = new Set(); const fill = CanvasRenderingContext2D.prototype.fillText;"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {"
        "  window.said.add(text); return fill.call(this, text, ...at); };"
    )
    page.click(".card button", "Fit")
    page.browser.wait("return [...window.said].some(t => t.startsWith(arguments[0]))", text)


def test_a_copy_that_the_host_waits_for_is_a_host_sync(page):
    page.open("h100/pageable-copies", view="timeline")
    page.wait_for(
        ".card", "4 calls in the steps made the host wait for the device, 62.9 ms together"
    )
    rows = page.rows("[aria-label='Host syncs']")
    assert [row[0] for row in rows] == ["cudaMemcpyAsync"] * 4
    assert rows[0][2] == "aten::copy_"
    rows = page.rows("[aria-label='What the syncs wait for']")
    assert [row[:2] for row in rows] == [["its own copy", "4"]]


def test_the_profilers_own_closing_sync_is_not_counted(page):
    page.open("h100/small-batch", view="timeline")
    page.wait_for(".card", "Why the device was idle")
    assert "made the host wait for the device" not in page.text()


def test_a_step_that_the_profiler_distorts_is_marked(page):
    page.open("h100/reads-in-a-loop", view="timeline")
    page.wait_for(".notice", "ProfilerStep#15 takes 4.2 times as long as usual steps")
    page.open("h100/reads-in-a-loop", view="steps")
    page.wait_for("[data-table='apart'] tr", "profiled")
    page.open("h100/reads-in-a-loop")
    assert "43%" in page.wait_for(".hero-figure", "the host stops to wait for it")


def test_gaps_and_kernels_have_readable_names(page):
    page.open("h100/small-batch", view="operators")
    page.wait_for("td.name", "Kernel2<cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4>")
    assert not [name for name, *_ in page.rows("[aria-label='Kernels']") if "void" in name]
    assert "Occupancy 2.0%" in " ".join(page.wait_for(".meters", "Occupancy").split())
    page.open("h100/reads-in-a-loop", view="timeline")
    page.browser.wait("return document.querySelector('.tl-canvas')?.timeline.loader.blocks && 1")
    canvas_says(page, "Inside")


def test_little_memory_of_a_large_device_is_seen(page):
    page.open("h100/leak", view="memory")
    page.wait_for(".card", "At most 306 MiB of 79.2 GiB reserved")
    page.browser.wait("return document.querySelectorAll('.js-plotly-plot .ytick').length > 3")
    ranges = page.browser.run(
        "return [...document.querySelectorAll('.js-plotly-plot')].map(p => p.layout.yaxis.range[1])"
    )
    assert all(250 < top < 400 for top in ranges)  # MiB
    page.wait_for(".card", "4.00 MiB")


def test_kernels_that_only_one_of_two_runs_has_are_told(page):
    page.open("h100/fp32-products", view="compare", base="h100/reads-in-a-loop")
    page.wait_for("[data-table='kernels']", "added")
    rows = page.rows("[data-table='kernels']")
    assert [row[-1] for row in rows[:7]] == ["added"] * 3 + ["removed"] * 4
    assert rows[0][0].startswith("sm80_xmma_gemm_f32f32_f32f32_f32")
    figures = {row[0].lower(): row[4:] for row in page.rows("[data-table='before_after']")}
    assert figures["kernels per step"] == ["lower", "yes"]
    assert figures["loss"] == ["same", "yes"]


def test_a_device_that_is_behind_has_its_own_step_time(page):
    page.open("h100/fp32-products")
    said = page.wait_for(".hero", "mean of 141 steady steps, by the device")
    assert "4.49 ms" in said
    assert "the host's mean 3.65 ms, median" in said
    page.open("h100/small-batch")
    assert "by the device" not in page.wait_for(".hero", "2.90 ms")
