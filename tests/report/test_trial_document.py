import pytest
from made_trials import TRIALS
from msgspec.structs import replace

from lightning_gpuprof.records.trials import Trial, Trials
from lightning_gpuprof.report import markdown
from lightning_gpuprof.report.build_trial import build_trial, trial_sections
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import Interval, Text, decode, encode


@pytest.fixture(scope="module")
def document():
    return build_trial(TRIALS)


def test_what_to_change_comes_first_as_code(document):
    verdict = document.verdict
    assert (verdict.kind, verdict.title) == ("change", "Measured together: 40% less per step")
    assert verdict.change == TRIALS.paste
    assert document.sections[0].id == "verdict"


def test_each_trial_has_its_gain_with_an_interval(document):
    own, together = document.rows("trials")
    assert own == {
        "change": "num_workers=2",
        "gain_ns": Interval(3_800_000, 4_200_000),
        "gain_frac": 0.4,
        "before_ns": 10_000_000,
        "after_ns": 6_000_000,
        "verdict": "faster",
    }
    assert together == {**own, "change": "all together"}


def test_the_program_as_it_is_stands_beside_each_change(document):
    as_it_is, own, _ = document.rows("trial_effects")
    assert (as_it_is["change"], as_it_is["first_step_ns"]) == ("as it is", 20_000_000)
    assert (own["predicted_ns"], own["losses"]) == (Interval(3_000_000, 5_000_000), "bit-equal")
    assert (own["samples_per_s"], own["memory_bytes"]) == (5333.3, 2**30)


def test_a_change_that_was_not_measured_says_why(document):
    assert [(row["change"], row["verdict"], row["why"]) for row in document.rows("untried")] == [
        ("pin_memory", "not run", "there is no GPU"),
        ("val_check_interval=50", "faster", "validations come less often"),
    ]


def test_the_text_has_each_trial_and_what_to_change(document):
    text = render(document)
    assert text.startswith("train.py --lr 1: tried in 61.0 s\n")
    assert "  Trainer(..., log_every_n_steps=50)\n  DataLoader(..., num_workers=2)\n" in text
    own = next(line for line in text.splitlines() if line.startswith("  num_workers=2 "))
    assert own.split() == (
        ["num_workers=2", "3.8", "to", "4.2", "ms", "40%", "10.0", "ms", "6.00", "ms", "faster"]
    )
    assert "  num_workers=2: its longer first step pays off by step 3.\n" in text
    assert "  note: Steps are on one device.\n" in text


def test_the_markdown_has_the_change_as_a_block_of_code(document):
    text = markdown.render(document)
    assert text.startswith("## Trials of `train.py --lr 1`\n")
    assert "```python\nTrainer(..., log_every_n_steps=50)\nDataLoader(..., num_workers=2)\n```" in (
        text
    )


def test_without_a_winner_the_program_is_left_as_it_is():
    document = build_trial(Trials(program="a.py", seconds=1.0))
    assert (document.verdict.kind, document.verdict.change) == ("nothing", None)
    assert "No change is sure to save time without altering results" in render(document)
    last = list(trial_sections(Trials(program="a.py", seconds=1.0)))[-1]
    answer = "No change is sure to save time without altering results"
    sentence = f"{answer}. Leave the program as it is."
    assert last.body == (Text((sentence,), "strong"),)


def test_what_there_was_no_time_for_is_no_verdict():
    tried = Trial(change="optimizer", value="fused", verdict="same")
    cut = Trial(change="num_workers", value=2, verdict="undecided")
    missed = Trial(change="num_workers", value=4, verdict="no time")
    document = build_trial(Trials(program="a.py", seconds=90.0, trials=(tried, cut, missed)))
    assert document.verdict.kind == "too_short"
    assert document.verdict.title == "1 of 3 changes measured: undecided"
    assert document.verdict.sentence.endswith("give it --for 5m.")
    assert "No change is sure" not in render(document)


def test_a_single_winner_without_a_check_is_marked_so(document):
    winner = replace(TRIALS.trials[0], verdict="faster", gain_frac=0.4)
    check = Trial(change="combination", verdict="undecided", note="its check ran out of time")
    only = replace(TRIALS, trials=(winner,), combination=check)
    assert "Measured: 40% less per step (its check ran out of time)" in render(build_trial(only))


def test_a_ceiling_alone_says_how_much_there_is_to_gain(document):
    ceiling = replace(TRIALS.trials[0], change="without_callback", value="A", ceiling=True)
    alone = build_trial(replace(TRIALS, trials=(ceiling,), combination=None, paste=""))
    assert alone.verdict.title == "At most 40% of a step can be gained in one place"
    assert "without_callback=A shows the most" in alone.verdict.sentence
    slower = replace(ceiling, verdict="same")
    same = build_trial(replace(TRIALS, trials=(slower,), combination=None, paste=""))
    assert same.verdict.sentence == "Leave the program as it is."


def test_a_ceiling_is_no_change_to_make(document):
    ceiling = replace(TRIALS.trials[0], change="cached_batches", value=None, ceiling=True)
    text = render(build_trial(replace(TRIALS, trials=(ceiling,), combination=None, paste="")))
    assert "  cached_batches: upper bound of what can be gained here" in text


def test_the_settings_are_in_the_document_as_data(document):
    settings = decode(encode(document)).subject.facts["settings"]
    assert settings["Trainer"] == {"log_every_n_steps": 50}
    assert settings["DataLoader"] == {"num_workers": 2}
