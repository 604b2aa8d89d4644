"""A file of the user's own pairs: nothing without the variable, and damage costs a line."""

import json

import pytest

from lightning_gpuprof.analysis.savings.conformal import OWN_PAIRS, Pair
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.local_pairs import VARIABLE, append_pairs, pairs_file, read_pairs

MS = 1_000_000
PAIR = Pair("data-wait", "try", "2026-11-28", "cpu", 10 * MS, 5 * MS, 6 * MS, 7 * MS, 0.0, 6 * MS)
ROW = json.dumps(["data-wait", "try", "2026-11-28", "cpu", 10, 5, 6, 7, 0.0, 6])


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "pairs.jsonl"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_what_is_appended_is_read_in_order(file):
    other = Pair("host-bound", *values(PAIR)[1:])
    append_pairs(str(file), [PAIR])
    append_pairs(str(file), [other])
    assert len(file.read_text().splitlines()) == 2
    assert read_pairs() == ((PAIR, other), ())


def values(pair):
    return [getattr(pair, name) for name in pair.__struct_fields__]


@pytest.mark.parametrize("value", [None, "", "  "])
def test_without_the_variable_there_is_no_file(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert pairs_file() is None
    assert read_pairs() == ((), ())


def test_a_file_that_is_not_there_yet_is_no_damage(file):
    assert read_pairs() == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        '["data-wait"]',
        ROW.replace("10", "0"),
        ROW.replace("10", "-10"),
        ROW.replace("10", "1e999"),
        '{"kind": "data-wait"}',
        "\udcff",
    ],
)
def test_a_damaged_line_is_left_out_and_one_sentence_names_it(file, line):
    text = f"{ROW}\n{line}\n\n{line}\n{ROW}\n"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    pairs, (sentence,) = read_pairs()
    assert len(pairs) == 2
    assert sentence.startswith(f"In the pairs of {file} ({VARIABLE}), lines that cannot be read")
    assert "(2 of 4; line 2: " in sentence


def test_texts_are_made_printable(file):
    file.write_text(ROW.replace("try", "a\\u001b[31m\\nb") + "\n")
    ((pair,), _) = read_pairs()
    assert pair.source == "a?[31m b"


def test_what_is_no_regular_file_is_left_out_with_a_sentence(file):
    file.mkdir()
    pairs, (sentence,) = read_pairs()
    assert not pairs
    assert sentence.startswith(f"The pairs in {file} ({VARIABLE}) are left out")


def waits(run):
    report = load_report(run)
    [wait] = [finding for finding in report.findings if finding.id == "data-wait"]
    return wait, report.notices


def test_a_report_calibrates_by_the_users_pairs_and_shows_their_damage(
    write_run, make_session, file
):
    run = write_run(make_session({"data_wait": 6 * MS, "forward": 4 * MS}))
    of_model, _ = waits(run)
    assert of_model.coverage is None
    append_pairs(str(file), [PAIR] * (OWN_PAIRS - 1))
    assert waits(run)[0] == of_model  # too few to know how often intervals hold
    append_pairs(str(file), [PAIR])
    with file.open("a") as lines:
        lines.write("no JSON\n")
    calibrated, notices = waits(run)
    assert (calibrated.coverage.held, calibrated.coverage.count) == (OWN_PAIRS, OWN_PAIRS)
    assert any(VARIABLE in notice for notice in notices)


def test_pairs_of_any_size_leave_a_report(write_run, make_session, file):
    run = write_run(make_session({"data_wait": 6 * MS, "forward": 4 * MS}))
    huge = 1 << 61
    extreme = [Pair(*values(PAIR)[:4], *row) for row in (
        (1, 1, 1, 1, 0.0, huge), (huge, 1, 1, 1, 1.0, huge), (1, huge, huge, huge, 0.0, 1),
    )]  # fmt: skip
    append_pairs(str(file), extreme * OWN_PAIRS)
    saving = waits(run)[0].saving_ns
    assert 0 == saving.low <= saving.high <= 10 * MS
