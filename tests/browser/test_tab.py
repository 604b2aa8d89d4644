"""What a person sees in the PROFILE tab of a real TensorBoard."""

import re

import pytest

from lightning_gpuprof.records.schema import SCHEMA_VERSION

pytestmark = pytest.mark.browser

FORWARD_MS = 6.0
"""As `made_runs.py` has it, but for noise."""


def test_the_overview_names_the_bottleneck_the_change_and_the_gain(page):
    page.open("char_lm/version_0")
    hero = page.wait_for(".hero", "Fix first")
    assert re.search(r"4\d\.\d ms", hero)
    assert "of each step (23.9 ms) waits for data" in hero
    assert "DataLoader(..., num_workers=2, persistent_workers=True)" in hero
    assert "14 to 59%" in hero
    assert "No GPU: " in hero
    card = page.wait_for(".finding", "data-wait")
    assert "worker process" in card
    assert re.search(r"saves .* per step \(14 to 59%\)", card), card
    assert re.search(r"num workers\s+0", card)
    shown = "return [...document.querySelectorAll('.finding')].map(e => e.open)"
    assert page.browser.run(shown) == [True, False, False]
    assert len(page.browser.run("return [...document.querySelectorAll('.finding[open] dt')]")) <= 5
    page.click(".finding .copy")
    page.wait_for(".finding .copy", "Copied")


def test_where_to_look_answers_the_usual_questions_and_the_plan_orders_the_changes(page):
    page.open("char_lm/version_0")
    look = page.wait_for(".card", "Checklist")
    assert "First look at the finding data-wait." in look
    rows = page.rows("[data-table='checklist']")
    assert rows[0][0] == "look"
    assert rows[0][2].startswith("Does loading data take most of the step?")
    assert {row[0] for row in rows} == {"look"}
    page.click("[aria-label='Checklist'] .table-box > button")
    assert {row[0] for row in page.rows("[data-table='checklist']")} == {"look", "ok", "-"}
    plan = page.rows("[data-table='plan']")
    assert plan[0][2] == "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert plan[0][3] == "14 to 59%"
    assert plan[0][0] == "quick"
    page.click("[data-table='checklist'] button", "Is the number of data workers right?")
    page.wait_for("h1", "Overview")


def test_without_a_finding_the_verdict_says_what_is_the_limit(page):
    page.open("h100/device-bound")
    hero = page.wait_for(".hero", "The GPU is the limit")
    assert "Saves" not in hero
    page.wait_for(".card", "First look at the backward pass")


def test_an_address_of_a_run_that_is_gone_says_so_and_shows_another(page):
    page.open("gone/version_7")
    assert "There is no run gone/version_7" in page.wait_for(".notice")
    page.wait_for(".hero")
    first = page.browser.run("return document.getElementById('gp-run').options[0].value")
    assert f"{first} is shown" in page.wait_for(".notice")


def test_every_phase_of_a_step_is_listed_with_its_share(page):
    page.open("char_lm/version_0")
    rows = page.rows(".phases")
    assert rows[0][0] == "Data wait"
    assert rows[0][2:] == ["55.2%", "23.9 ms"]
    parts = page.browser.run(
        "return [...document.querySelectorAll('tr.part th')].map(e => e.innerText)"
    )
    assert parts == ["EmaWeights"]
    shares = [float(row[2].rstrip("%")) for row in rows if row[0] not in parts]
    assert sum(shares) == pytest.approx(100, abs=0.6)


def test_lines_of_the_program_are_listed_with_what_they_take_of_a_step(page):
    page.open("char_lm/version_0")
    page.wait_for("[data-table='lines']")
    first, second = page.rows("[data-table='lines']")
    assert first[0].startswith("char_lm/model.py:41")
    assert "self.decoder(self.embed(tokens)" in first[0]
    assert first[1] == "Forward"
    # 90 of 100 samples of forward, give or take two standard errors of 3 %.
    low, high = (float(end) for end in re.match(r"([\d.]+) to ([\d.]+) ms", first[3]).groups())
    assert (low + high) / 2 == pytest.approx(0.9 * FORWARD_MS, rel=0.02)
    assert (high - low) / 2 == pytest.approx(0.06 * FORWARD_MS, abs=0.051)
    assert second[0].startswith("char_lm/model.py:44")


def test_lines_of_worker_processes_are_listed_with_what_they_take_of_a_batch(page):
    page.open("workers")
    row = page.wait_for("[data-table='workers'] tr", "data/text.py:12")
    assert "total += byte" in row
    ((_, share, time, *_),) = page.rows("[data-table='workers']")
    assert share == "85 to 95%"
    # Two workers for a step of 20 ms, at work in 80 samples of 100: 32 ms a batch.
    assert float(time.removesuffix(" ms")) == pytest.approx(0.9 * 32, rel=0.03)


def test_named_modules_are_listed_with_their_calls_and_how_to_fold_several_into_one(page):
    page.open("gpu")
    page.wait_for("[data-table='modules']", "encoder")
    ((name, calls, *_),) = page.rows("[data-table='modules']")
    assert name.startswith("encoder")
    assert calls.startswith("24")
    assert "gpt/model.py:12 `z = self.encoder(x[:, t])`; fold time into the batch" in page.text()


def test_graph_breaks_are_listed_with_their_line_and_torchs_reason(page):
    page.open("gpu")
    page.wait_for("[data-table='compile_events']", "gpt/model.py:30")
    ((what, line, reason, *_),) = page.rows("[data-table='compile_events']")
    assert (what, reason) == ("graph break", "print is not traced")
    assert "print(loss)" in line


def test_steps_are_drawn_stacked_by_phase_and_a_range_of_them_in_full_detail(page):
    page.open("char_lm/version_1", view="steps", **{"from": "100", "to": "150"})
    page.wait_for("p.muted", "Steps 100 to 149 of 5,000, one by one.")
    page.click("button", "Show all")
    page.wait_for("p.muted", "each point the mean of up to 11 steps")
    page.browser.wait("return document.querySelectorAll('.chart .trace').length >= 10")


def test_operators_can_be_searched_and_sorted(page):
    page.open("char_lm/version_0", view="operators", trace="rank0-cycle0.pt.trace.json.gz")
    names = [row[0] for row in page.rows("table")]
    assert names[:2] == ["aten::addmm", "aten::mm"]
    page.click("th button", "Calls")
    assert page.rows("table")[0][:2] == ["aten::addmm", "864"]
    page.browser.type("input[type=search]", "softmax")
    assert [row[0] for row in page.rows("table")] == ["aten::_softmax"]


def timeline(page, expression):
    """Ask the drawn timeline something that only its canvas shows."""
    return page.browser.run(
        f"const t = document.querySelector('.tl-canvas').timeline; return {expression}"
    )


def test_the_timeline_draws_the_profiled_steps_and_tells_of_a_clicked_event(page):
    page.open("traced", view="timeline")
    card = page.wait_for(".card", "Why the device was idle")
    assert re.search(r"Waiting for data\s+3\s+135 µs", card)
    page.wait_for(".card", "3 calls in the steps made the host wait for the device, 297 \u00b5s")
    page.browser.wait("return document.querySelector('.tl-canvas').timeline.loader.blocks && 1")
    heads = page.browser.run(
        "return [...document.querySelectorAll('.tl-head')].map(e => e.innerText)"
    )
    assert [head.split()[0] for head in heads] == [
        "Annotations",
        "Idle,",
        "Device",
        "Device",
        "Host",
        "Host",
        "Host",
        "Python",
    ]
    page.browser.run(CLICK_LONGEST, "stream")
    detail = page.wait_for(".tl-detail", "launched by")
    assert "Matrix multiply" in detail
    assert "20.0 µs" in detail
    assert "aten::" in page.wait_for(".tl-stack")


CLICK_LONGEST = """
const t = document.querySelector('.tl-canvas').timeline, b = t.loader.blocks;
const row = t.rows.find(one => one.kind === arguments[0]);
const [first, last] = b.lanes.get(row.first);
let best = first;
for (let i = first; i < last; i++) if (b.count[i] === 1 && b.dur[i] > b.dur[best]) best = i;
t.show(b.start[best] - 5e4, b.start[best] + 5e4);
t.draw();
const box = t.canvas.getBoundingClientRect();
const x = (b.start[best] + b.dur[best] / 2 - t.from) / (t.to - t.from) * t.width;
const at = {clientX: box.left + x, clientY: box.top + row.body + 8, pointerId: 1, bubbles: true};
t.canvas.setPointerCapture = () => {};
for (const type of ['pointerdown', 'pointerup']) t.canvas.dispatchEvent(new PointerEvent(type, at));
"""


def test_a_selected_event_is_in_the_address_and_its_link_shows_it_again(page):
    page.open("traced", view="timeline")
    page.browser.type("input[type=search]", "StreamSynchronize")
    page.wait_for("p.muted", "3 events hold")
    page.click("td .link", "cudaStreamSynchronize")
    picked = page.wait_for(".tl-detail", "cudaStreamSynchronize")
    address = page.browser.run("return location.hash")
    event, trace = (re.search(f"gpuprof.{key}=([^&]+)", address)[1] for key in ("event", "trace"))
    page.open("traced", view="timeline", event=event, trace=trace)
    assert page.wait_for(".tl-detail", "cudaStreamSynchronize") == picked


def test_the_keys_of_the_timeline_are_shown_on_a_question_mark(page):
    page.open("traced", view="timeline")
    page.wait_for(".tl-canvas")
    shown = "return !document.querySelector('.tl-keys').hidden"
    assert page.browser.run(shown) is False
    page.browser.type(".tl-canvas", "?")
    assert page.browser.run(shown) is True
    page.click(".button", "?")
    assert page.browser.run(shown) is False


def test_the_timeline_is_searched_zoomed_by_keys_and_its_range_kept_in_the_address(page):
    page.open("traced", view="timeline")
    page.browser.type("input[type=search]", "StreamSynchronize")
    page.wait_for("p.muted", "3 events hold \u201cStreamSynchronize\u201d, 297 \u00b5s together")
    whole = timeline(page, "t.to - t.from")
    page.browser.type(".tl-canvas", "++")
    assert timeline(page, "t.to - t.from") == pytest.approx(whole * 0.49)
    page.browser.wait("return location.hash.includes('p.gpuprof.view_ns=')")
    page.browser.type(".tl-canvas", "0")
    assert timeline(page, "t.to - t.from") >= whole


def test_a_trace_that_nobody_analysed_or_laid_out_fills_in_when_that_is_done(
    page, serve, made_runs, tmp_path
):
    made_runs.traced_run(tmp_path / "unread", prepared=False)
    serve("--logdir", str(tmp_path), "--load_fast", "false")
    page.open("unread", view="operators")
    page.browser.wait("return document.body.innerText.includes('aten::')", timeout_s=120)
    page.browser.wait("return document.body.innerText.includes('Call tree')", timeout_s=120)
    page.click(".tab", "Timeline")
    drawn = "return document.querySelector('.tl-canvas')?.timeline.loader.blocks && 1"
    page.browser.wait(drawn, timeout_s=120)


def test_each_cycles_trace_can_be_downloaded_or_opened(page):
    page.open("char_lm/version_0", view="traces")
    line = page.wait_for(".traces li", "Rank 0, cycle 1")
    assert "Download" in line
    assert "Open in Perfetto" in line
    href = page.browser.run("return document.querySelector('.traces a').href")
    assert href.endswith("/trace?run=char_lm%2Fversion_0&file=rank0-cycle0.pt.trace.json.gz")


def test_views_and_ranks_are_picked_and_kept_in_the_address_of_the_profile_tab(page):
    page.open("two_ranks", shell=True)
    page.browser.leave_frame()
    assert "PROFILE" in page.text()
    page.browser.enter_frame()
    page.click(".tab", "Steps")
    page.wait_for(".card", "Phases per step")
    page.browser.run(
        "const s = document.querySelector('#gp-rank'); s.value = '1';"
        "s.dispatchEvent(new Event('change'))"
    )
    address = "return parent.location.hash"
    assert "p.gpuprof.view=steps" in page.browser.run(address)
    assert "p.gpuprof.rank=1" in page.browser.run(address)
    assert page.browser.run(address).startswith("#gpuprof")


def test_hostile_names_in_a_trace_are_text_in_the_timeline_too(page):
    page.open("hostile_trace", view="timeline")
    page.browser.wait("return document.querySelector('.tl-canvas').timeline.loader.blocks && 1")
    page.browser.type("input[type=search]", "pwned\n")
    page.click("td.name button")
    page.wait_for(".tl-detail", "<img src=x onerror=")
    assert page.browser.run("return document.querySelectorAll('img, b').length") == 0
    assert "pwned" not in page.browser.run("return document.title")


def test_a_killed_run_shows_its_timers_and_that_it_stopped(page):
    page.open("killed")
    page.wait_for(".pill", "stopped")
    page.wait_for(".finding", "data-wait")


def test_a_run_of_a_newer_schema_is_named(page):
    page.open("newer")
    written = f"record schema {SCHEMA_VERSION + 1}; this version reads up to {SCHEMA_VERSION}"
    page.wait_for(".empty", f"newer was written with {written}")


def test_a_live_run_is_followed(page, logs, made_runs):
    page.open("live", view="steps")
    page.wait_for(".pill", "live")
    page.wait_for("p.muted", "of 150")
    page.browser.run("document.querySelector('details').open = true")
    more = list(made_runs.windows(200, made_runs.DEMO_PHASES_MS))[3:]
    made_runs.write_run(logs / "live", more)
    page.wait_for("p.muted", "of 200")
    assert page.browser.run("return document.querySelector('details').open")
    page.click(".tab", "Overview")
    page.wait_for(".hero")
    assert not page.browser.run("return document.querySelector('main details.behind[open]')")


def test_what_is_unfolded_of_one_run_is_not_of_another(page):
    unfolded = "return document.querySelectorAll('main details.abstained[open]').length"
    page.open("killed")
    page.browser.run("document.querySelector('main details.abstained').open = true")
    assert page.browser.run(unfolded) == 1
    page.browser.run("location.hash = location.hash.replace('killed', 'gpu')")
    page.wait_for(".pill", "finished")
    page.wait_for("main details.abstained", "Rules without a finding")
    assert page.browser.run(unfolded) == 0


def test_dark_mode_follows_tensorboard(page):
    page.open("char_lm/version_0", shell=True)
    background = "return getComputedStyle(document.body).backgroundColor"
    assert page.browser.run(background) == "rgb(246, 247, 249)"
    page.browser.run("parent.document.body.classList.add('dark-mode')")
    page.browser.wait(background + " === 'rgb(22, 24, 28)'")


def test_named_log_dirs_below_a_path_prefix_are_shown(page, logs, serve):
    spec = f"first:{logs}/char_lm,second:{logs}/gpu"
    serve("--logdir_spec", spec, prefix="/deep/down")
    page.open("first/version_0", shell=True)
    page.wait_for(".hero", "of each step (23.9 ms) waits for data")
    names = page.browser.run(
        "return [...document.getElementById('gp-run').options].map(one => one.value)"
    )
    assert sorted(names) == ["first/version_0", "first/version_1", "second"]
    page.click(".tab", "Steps")
    page.wait_for(".facts-line", "47.7 ms")
    page.browser.wait("return document.querySelectorAll('.chart .trace').length >= 8")


def test_an_empty_log_dir_explains_itself_below_a_path_prefix(page, serve, tmp_path):
    serve("--logdir", str(tmp_path), "--load_fast", "true", prefix="/deep/down")
    page.open(shell=True)
    assert "trainer = Trainer(callbacks=[GpuProfCallback()])" in page.wait_for(".welcome")
    mistyped = page.browser.run(
        "return import(arguments[0]).then(it => it.welcome(['/typo'], ['/typo']).textContent)",
        f"{page.base}/data/plugin/gpuprof/static/messages.js",
    )
    assert "/typo does not exist. Is --logdir right?" in mistyped
