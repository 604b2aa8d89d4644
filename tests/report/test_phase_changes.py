"""Which phases of two runs differ, on the surfaces that show it."""

import json

import numpy as np
import pytest
from made_records import add_cycle, operator

from lightning_gpuprof.report import console, markdown
from lightning_gpuprof.report.comparison import compare_runs
from lightning_gpuprof.report.document import Multiples, Table

MS = 1_000_000
MEANS_MS = {"data_wait": 5.0, "forward": 6.0, "backward": 11.0, "logging": 0.05}


@pytest.fixture
def compared(make_session, write_run):
    """Compare a run with one whose phases take the given times."""

    def run(name, seed, steps, means_ms):
        random = np.random.default_rng(seed)
        phases = {
            phase: (mean * MS * np.exp(0.2 * random.standard_normal(steps))).astype(np.int64)
            for phase, mean in means_ms.items()
        }
        parts = {"forward/encoder": phases["forward"] // 2}
        return write_run(make_session(phases, steps=steps, parts=parts), name=name)

    def compare(*, steps=300, **means_ms):
        base = run("base", 1, steps, MEANS_MS)
        return compare_runs(base, run("new", 2, steps, MEANS_MS | means_ms))

    return compare


def parts_of(comparison):
    body = comparison.document().section("phases").body
    (multiples,) = (part for part in body if isinstance(part, Multiples))
    (table,) = (part for part in body if isinstance(part, Table))
    return multiples, table


def test_each_phase_is_a_picture_and_what_chance_explains_comes_last(compared):
    multiples, table = parts_of(compared(forward=5.0, backward=11.3))
    words = {multiple.key: multiple.noise for multiple in multiples.multiples}
    # Logging takes less than half a percent of the step: it has a row, and no picture.
    assert words == {"forward": None, "backward": "within noise", "data_wait": "within noise"}
    assert next(iter(words)) == "forward"
    forward = multiples.multiples[0]
    assert forward.base_interval.low < forward.base < forward.base_interval.high
    assert forward.diff_interval.low < forward.diff < forward.diff_interval.high < 0
    rows = {row["label"]: row for row in table.rows}
    assert (rows["Forward"]["noise"], rows["Forward"].get("state")) == ("beyond noise", None)
    assert (rows["encoder"]["noise"], rows["encoder"]["level"]) == ("beyond noise", 1)
    for name in ("Backward", "Data wait", "Logging"):
        assert (rows[name]["noise"], rows[name]["state"]) == ("within noise", "neutral")


def test_three_steps_cannot_show_a_difference_of_half_a_step(compared):
    comparison = compared(steps=3, forward=30.0)
    multiples, table = parts_of(comparison)
    assert {multiple.noise for multiple in multiples.multiples} == {"too few steps"}
    assert multiples.multiples[0].base_interval is None
    assert {row["state"] for row in table.rows} == {"neutral"}
    assert comparison.most_changed_phase is None


def test_the_phase_that_changed_most_is_one_whose_change_is_no_chance(compared):
    assert compared(forward=5.0, backward=11.3).most_changed_phase.name == "forward"
    assert compared().most_changed_phase is None


def test_console_and_markdown_say_what_is_noise(compared):
    document = compared(forward=5.0).document()
    text, page = console.render(document, verbose=True), markdown.render(document)
    for name, word in {"Forward": "beyond noise", "Backward": "within noise"}.items():
        assert any(name in line and line.endswith(word) for line in text.splitlines())
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {name} "))
        shown = row.endswith(f"| {word} |")
        assert shown


def test_differences_are_columns_that_say_so(compared):
    _, table = parts_of(compared())
    assert [column.key for column in table.columns if column.difference] == ["diff"]


def test_operators_in_three_steps_are_grey_unless_they_are_called_more_often(
    make_session, write_run, tmp_path
):
    def run(name, operators):
        cycle = add_cycle(tmp_path / name, operators=operators)
        (path,) = (tmp_path / name).rglob("*.analysis.json")
        steps = [{"name": f"ProfilerStep#{at}", "start_ns": at, "dur_ns": MS} for at in range(3)]
        path.write_text(json.dumps(json.loads(path.read_text()) | {"steps": steps}))
        return write_run(make_session({"forward": MS}, records=[cycle]), name=name)

    base = run("base", [operator("aten::mm", 3, 1, 1), operator("aten::add", 3, 1, 1)])
    new = run("new", [operator("aten::mm", 3, 3, 3), operator("aten::add", 6, 2, 2)])
    rows = {row["name"]: row for row in compare_runs(base, new).document().rows("operators")}
    assert (rows["aten::mm"]["only"], rows["aten::mm"]["state"]) == ("too few steps", "neutral")
    assert (rows["aten::add"]["only"], rows["aten::add"].get("state")) == ("beyond noise", None)
