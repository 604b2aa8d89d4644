"""Two findings that tell of the same time."""

import pytest

from lightning_gpuprof.findings.model import Finding, Range, Severity, Where
from lightning_gpuprof.findings.told_once import told_once

MS = 1_000_000
LINE = Where(file="train.py", line=7, phase="forward")
NAME = "experiment.add_image"


def made(finding_id, low_ms, high_ms, *where, severity=Severity.WARNING, **evidence):
    return Finding(
        id=finding_id, severity=severity, title="", advice="", evidence=evidence, confidence=0.9,
        saving_ns=Range(low=round(low_ms * MS), high=round(high_ms * MS)), where=where,
    )  # fmt: skip


def kept(*found):
    return [one.id for one in told_once(found)[0]]


def test_much_python_at_a_line_steps_back_behind_what_says_why():
    python = made("slow-python", 1, 4, LINE)
    constant = made("recomputed-constant", 2, 5, LINE)
    stay, back = told_once([python, constant])
    assert stay == [constant]
    assert back[0].id == "slow-python"
    assert back[0].reason.startswith("recomputed-constant tells of the same time: it names that")


def test_other_lines_are_other_time():
    other = Where(file="train.py", line=8, phase="forward")
    assert len(kept(made("slow-python", 1, 4, other), made("recomputed-constant", 2, 5, LINE))) == 2


def test_a_loop_that_takes_longer_than_what_explains_a_part_of_it_stays():
    assert len(kept(made("host-bound", 5, 9, LINE), made("recomputed-constant", 2, 5, LINE))) == 2


def test_what_is_only_info_sends_no_warning_back():
    constant = made("recomputed-constant", 2, 5, LINE, severity=Severity.INFO)
    assert len(kept(made("slow-python", 1, 4, LINE), constant)) == 2


def test_of_those_that_say_little_the_one_that_says_least_steps_back():
    loop, python, reads = (
        made(one, 2, 4, LINE) for one in ("host-bound", "slow-python", "host-sync")
    )
    assert kept(loop, python, reads) == ["host-sync"]
    assert kept(loop, python) == ["slow-python"]
    assert kept(python, made("slow-python", 2, 4, LINE)) == ["slow-python", "slow-python"]


def test_one_that_steps_back_itself_sends_none_back():
    hook = Where(phase="other", name="on_after_backward")
    site = Where(file="t.py", line=3, phase="other", name="user")
    callback, reads = made("slow-callback", 2, 3, hook), made("host-sync", 1, 2, site)
    loop = made("host-bound", 1, 2, Where(file="t.py", line=3))
    assert kept(loop, reads, callback) == ["host-bound", "slow-callback"]


@pytest.mark.parametrize(
    ("place", "stays"),
    [
        (Where(file="t.py", line=3, phase="other", name="user"), False),
        (Where(file="t.py", line=3, phase="callbacks", name="callback:Norms"), False),
        (Where(file="t.py", line=3, phase="callbacks", name="callback:Others"), True),
        (Where(file="t.py", line=3, phase="forward", name="user"), True),
        (Where(file="t.py", line=3), True),
    ],
)
def test_reads_in_a_slow_hook_are_that_hooks(place, stays):
    slow = made(
        "slow-callback",
        2,
        3,
        Where(phase="callbacks", name="Norms"),
        Where(phase="other", name="end"),
    )
    assert ("host-sync" in kept(made("host-sync", 1, 2, place), slow)) == stays


def test_reads_in_several_places_stay_where_one_is_nobody_elses():
    slow = made("slow-callback", 2, 3, Where(phase="callbacks", name="Norms"))
    hook = Where(file="t.py", line=3, phase="callbacks", name="callback:Norms")
    assert len(kept(made("host-sync", 1, 2, hook, LINE), slow)) == 2


def test_a_callback_that_takes_longer_each_time_is_told_as_growing():
    place = Where(phase="callbacks", name="Plots")
    slow, grows = made("slow-callback", 4, 6, place), made("growing-cost", 3, 8, place)
    assert kept(slow, grows) == ["growing-cost"]
    # Of one that was slow from the beginning the growth is the lesser part.
    assert len(kept(slow, made("growing-cost", 1, 2, place))) == 2
    other = made("growing-cost", 3, 8, Where(phase="callbacks", name="Tables"))
    assert len(kept(slow, other)) == 2
    phase = made("growing-cost", 3, 8, Where(phase="callbacks"))
    assert kept(slow, phase) == ["growing-cost"]


def test_work_between_epochs_that_takes_longer_each_time_is_told_as_growing():
    place = Where(phase="callbacks", name="Plots")
    slow, grows = made("slow-epoch-end", 4, 6, place), made("growing-cost", 3, 8, place)
    assert kept(slow, grows) == ["growing-cost"]


@pytest.mark.parametrize("front", ["growing-cost", "memory-growth"])
def test_a_phase_that_grows_does_not_say_which_of_its_callbacks_does(front):
    grows = made(front, 3, 8, Where(phase="callbacks"))
    one = made("slow-callback", 4, 6, Where(phase="callbacks", name="Plots"))
    other = made("slow-callback", 1, 2, Where(phase="callbacks", name="Tables"))
    hook = made("slow-callback", 1, 2, Where(phase="other", name="on_train_batch_end"))
    assert len(kept(one, other, grows)) == 3
    assert kept(one, hook, grows) == ["slow-callback", front]
    ends = made("slow-epoch-end", 1, 2, Where(phase="callbacks", name="Plots"))
    assert kept(one, ends, grows) == [front]


@pytest.mark.parametrize(
    ("hook", "stays"), [(None, True), ("on_validation_epoch_end", True), (NAME, False)]
)
def test_a_call_in_validation_steps_back_where_that_is_most_of_it(hook, stays):
    line = Where(file="t.py", line=3, phase="validation")
    call = made("slow-logging", 1, 2, line, Where(phase="validation", name=NAME))
    often = made("frequent-validation", 4, 6, Where(phase="validation", name=hook))
    assert ("slow-logging" in kept(call, often)) == stays


def test_lines_that_read_stay_where_one_of_them_is_nobody_elses():
    other = Where(file="train.py", line=8, phase="forward", name="user")
    python = made("penalty-in-loss", 2, 5, LINE)
    reads = made("host-sync", 0, 0, LINE, other, severity=Severity.INFO)
    assert len(kept(reads, python)) == 2
    assert kept(reads, made("penalty-in-loss", 2, 5, LINE, other)) == ["penalty-in-loss"]


def test_spikes_of_a_hook_that_is_named_are_told_once():
    spikes = made("step-time-jitter", 1, 2, Where(phase="other"))
    hook = made("slow-callback", 1, 2, Where(phase="other", name="on_train_batch_end"))
    assert kept(spikes, hook) == ["slow-callback"]
    collected = made("step-time-jitter", 1, 2, Where(phase="garbage_collection"))
    assert len(kept(collected, hook)) == 2


def test_graphs_that_are_kept_and_gone_through_are_told_by_their_backward_pass():
    graphs = made("memory-growth", 0, 0)
    growing = made("retained-graph", 5, 11, Where(phase="backward"), backward_last_ns=9)
    assert kept(growing, graphs) == ["retained-graph"]
    assert len(kept(made("memory-growth", 1, 2), growing)) == 2
    assert len(kept(made("retained-graph", 5, 11, Where(phase="backward")), graphs)) == 2


def test_a_sparse_gradient_takes_the_place_of_a_fused_update_where_it_saves_more():
    fused = made("unfused-optimizer", 2, 6)
    assert kept(fused, made("dense-embedding", 3, 6)) == ["dense-embedding"]
    assert len(kept(fused, made("dense-embedding", 0, 6))) == 2


@pytest.mark.parametrize(("used_frac", "stays"), [(0.45, False), (0.1, True)])
def test_scores_of_the_padding_go_with_it(used_frac, stays):
    padded = made("padded-batches", 4, 9, padding_frac=0.4)
    scores = made("unused-scores", 2, 5, LINE, kept_frac=used_frac)
    assert ("unused-scores" in kept(scores, padded)) == stays


def test_a_tracer_that_was_left_on_makes_all_of_python_slow():
    loop = made("host-bound", 1, 4, LINE)
    assert kept(loop, made("debugging-left-on", 2, 6)) == ["debugging-left-on"]


def test_operators_that_wait_for_another_thread_are_no_loop():
    loop, thread = made("host-bound", 1, 4, LINE), made("thread-contention", 3, 6, idle_ns=4 * MS)
    assert kept(loop, thread) == ["thread-contention"]
    assert len(kept(loop, made("thread-contention", 3, 6, lock_ns=4 * MS))) == 2
