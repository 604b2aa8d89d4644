"""Two findings that tell of the same time."""

import pytest
import rule_cases
from rule_cases import MS

from lightning_gpuprof.findings.model import Place, Severity
from lightning_gpuprof.findings.overlap import without_overlap

LINE = Place(file="train.py", line=7, phase="forward")
NAME = "experiment.add_image"


EXPLAINS = {
    "slow-callback": ("host-sync", "step-time-jitter"),
    "slow-logging": ("host-sync", "step-time-jitter"),
    "memory-growth": ("slow-callback", "slow-epoch-end", "slow-logging"),
    "frequent-validation": ("slow-logging",),
    "small-kernels": ("host-bound",),
    "thread-contention": ("host-bound", "small-kernels", "slow-python"),
    "retained-graph": ("memory-growth",),
}


def made(finding_id, low_ms, high_ms, *where, **changes):
    explains = EXPLAINS.get(finding_id, ())
    return rule_cases.made(
        finding_id, low_ms * MS, high_ms * MS, places=where, explains=explains, **changes
    )


def kept(*found):
    return [one.id for one in without_overlap(found)[0]]


def test_much_python_at_a_line_steps_back_behind_what_says_why():
    python = made("slow-python", 1, 4, LINE)
    constant = made("slow-callback", 2, 5, LINE)
    stay, back = without_overlap([python, constant])
    assert stay == [constant]
    assert back[0].id == "slow-python"
    assert back[0].reason == "slow-callback covers the same time"


def test_that_the_host_is_the_slower_one_is_told_by_what_it_does_slowly():
    kernels = made("small-kernels", 1, 4, Place(kernel="add"))
    assert kept(kernels, made("host-bound", 0, 0, Place(name="aten::add"))) == ["small-kernels"]
    assert len(kept(kernels, made("host-bound", 5, 9))) == 2


def test_a_loop_that_takes_longer_than_what_explains_a_part_of_it_stays():
    assert len(kept(made("host-bound", 5, 9, LINE), made("slow-callback", 2, 5, LINE))) == 2


def test_what_is_only_info_sends_no_warning_back():
    constant = made("slow-callback", 2, 5, LINE, severity=Severity.INFO)
    assert len(kept(made("slow-python", 1, 4, LINE), constant)) == 2


def test_of_those_that_say_little_the_one_that_says_least_steps_back():
    loop, python, reads = (
        made(one, 2, 4, LINE) for one in ("host-bound", "slow-python", "host-sync")
    )
    assert kept(loop, python, reads) == ["host-sync"]
    assert kept(loop, python) == ["slow-python"]
    assert kept(python, made("slow-python", 2, 4, LINE)) == ["slow-python", "slow-python"]


def test_one_that_steps_back_itself_sends_none_back():
    hook = Place(phase="other", name="on_after_backward")
    site = Place(file="t.py", line=3, phase="other", name="user")
    callback, reads = made("slow-callback", 2, 3, hook), made("host-sync", 1, 2, site)
    loop = made("host-bound", 1, 2, Place(file="t.py", line=3))
    assert kept(loop, reads, callback) == ["host-bound", "slow-callback"]


@pytest.mark.parametrize(
    ("place", "stays"),
    [
        (Place(file="t.py", line=3, phase="other", name="user"), False),
        (Place(file="t.py", line=3, phase="callbacks", name="callback:Norms"), False),
        (Place(file="t.py", line=3, phase="callbacks", name="callback:Others"), True),
        (Place(file="t.py", line=3, phase="forward", name="user"), True),
        (Place(file="t.py", line=3), True),
    ],
)
def test_reads_in_a_slow_hook_are_that_hooks(place, stays):
    hooks = Place(phase="callbacks", name="Norms"), Place(phase="other", name="end")
    slow = made("slow-callback", 2, 3, *hooks)
    assert ("host-sync" in kept(made("host-sync", 1, 2, place), slow)) == stays


def test_a_callback_that_takes_longer_each_time_is_told_as_growing():
    place = Place(phase="callbacks", name="Plots")
    slow, grows = made("slow-callback", 4, 6, place), made("memory-growth", 3, 8, place)
    assert kept(slow, grows) == ["memory-growth"]
    # Of one that was slow from the beginning the growth is the lesser part.
    assert len(kept(slow, made("memory-growth", 1, 2, place))) == 2
    other = made("memory-growth", 3, 8, Place(phase="callbacks", name="Tables"))
    assert len(kept(slow, other)) == 2
    phase = made("memory-growth", 3, 8, Place(phase="callbacks"))
    assert kept(slow, phase) == ["memory-growth"]


def test_a_phase_that_grows_does_not_say_which_of_its_callbacks_does():
    front = "memory-growth"
    grows = made(front, 3, 8, Place(phase="callbacks"))
    one = made("slow-callback", 4, 6, Place(phase="callbacks", name="Plots"))
    other = made("slow-callback", 1, 2, Place(phase="callbacks", name="Tables"))
    hook = made("slow-callback", 1, 2, Place(phase="other", name="on_train_batch_end"))
    assert len(kept(one, other, grows)) == 3
    assert kept(one, hook, grows) == ["slow-callback", front]
    ends = made("slow-epoch-end", 1, 2, Place(phase="callbacks", name="Plots"))
    assert kept(one, ends, grows) == [front]


@pytest.mark.parametrize(("hook", "stays"), [("on_validation_epoch_end", True), (NAME, False)])
def test_a_call_in_validation_steps_back_where_that_is_most_of_it(hook, stays):
    line = Place(file="t.py", line=3, phase="validation")
    call = made("slow-logging", 1, 2, line, Place(phase="validation", name=NAME))
    often = made("frequent-validation", 4, 6, Place(phase="validation", name=hook))
    assert ("slow-logging" in kept(call, often)) == stays


def test_spikes_of_a_hook_that_is_named_are_told_once():
    spikes = made("step-time-jitter", 1, 2, Place(phase="other"))
    hook = made("slow-callback", 1, 2, Place(phase="other", name="on_train_batch_end"))
    assert kept(spikes, hook) == ["slow-callback"]
    collected = made("step-time-jitter", 1, 2, Place(phase="garbage_collection"))
    assert len(kept(collected, hook)) == 2


@pytest.mark.parametrize("where", [(), (LINE,)])
def test_what_names_no_place_or_a_line_of_a_phase_explains_no_time_elsewhere(where):
    site = Place(file="t.py", line=3, phase="callbacks", name="callback:Norms")
    assert len(kept(made("host-sync", 1, 2, site), made("slow-logging", 2, 6, *where))) == 2
