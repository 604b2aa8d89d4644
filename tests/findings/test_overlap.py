"""Findings about the same time, of which the one that knows less is suppressed."""

import pytest
import rule_cases
from rule_cases import MS

from lightning_gpuprof.findings.model import Place, Severity, When
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


def staying(*findings):
    return [finding.id for finding in without_overlap(findings)[0]]


def test_python_at_a_line_is_suppressed_by_a_finding_that_knows_why():
    python = made("slow-python", 1, 4, LINE)
    callback = made("slow-callback", 2, 5, LINE)
    stay, suppressed = without_overlap([python, callback])
    assert stay == [callback]
    assert suppressed[0].id == "slow-python"
    assert suppressed[0].reason == "slow-callback covers the same time"
    assert suppressed[0].covered_by == "slow-callback"


def test_a_host_that_is_too_slow_is_reported_by_what_it_is_slow_at():
    kernels = made("small-kernels", 1, 4, Place(kernel="add"))
    assert staying(kernels, made("host-bound", 0, 0, Place(name="aten::add"))) == ["small-kernels"]
    assert len(staying(kernels, made("host-bound", 5, 9))) == 2


def test_a_loop_that_takes_longer_than_its_explanation_stays():
    assert len(staying(made("host-bound", 5, 9, LINE), made("slow-callback", 2, 5, LINE))) == 2


def test_an_info_suppresses_no_warning():
    callback = made("slow-callback", 2, 5, LINE, severity=Severity.INFO)
    assert len(staying(made("slow-python", 1, 4, LINE), callback)) == 2


def test_of_general_findings_the_most_general_is_suppressed():
    loop, python, reads = (
        made(finding_id, 2, 4, LINE) for finding_id in ("host-bound", "slow-python", "host-sync")
    )
    assert staying(loop, python, reads) == ["host-sync"]
    assert staying(loop, python) == ["slow-python"]
    assert staying(python, made("slow-python", 2, 4, LINE)) == ["slow-python", "slow-python"]


def test_a_suppressed_finding_suppresses_no_other():
    hook = Place(phase="other", name="on_after_backward")
    site = Place(file="t.py", line=3, phase="other", name="user")
    callback, reads = made("slow-callback", 2, 3, hook), made("host-sync", 1, 2, site)
    loop = made("host-bound", 1, 2, Place(file="t.py", line=3))
    assert staying(loop, reads, callback) == ["host-bound", "slow-callback"]


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
def test_reads_in_a_slow_hook_belong_to_that_hook(place, stays):
    hooks = Place(phase="callbacks", name="Norms"), Place(phase="other", name="end")
    slow = made("slow-callback", 2, 3, *hooks)
    assert ("host-sync" in staying(made("host-sync", 1, 2, place), slow)) == stays


def test_a_callback_that_takes_longer_each_time_is_reported_as_growth():
    place = Place(phase="callbacks", name="Plots")
    slow, grows = made("slow-callback", 4, 6, place), made("memory-growth", 3, 8, place)
    assert staying(slow, grows) == ["memory-growth"]
    # If it was slow from the beginning, the growth is the smaller part of its time.
    assert len(staying(slow, made("memory-growth", 1, 2, place))) == 2
    other = made("memory-growth", 3, 8, Place(phase="callbacks", name="Tables"))
    assert len(staying(slow, other)) == 2
    phase = made("memory-growth", 3, 8, Place(phase="callbacks"))
    assert staying(slow, phase) == ["memory-growth"]


def test_a_phase_that_grows_does_not_say_which_of_its_callbacks_does():
    front = "memory-growth"
    grows = made(front, 3, 8, Place(phase="callbacks"))
    plots = made("slow-callback", 4, 6, Place(phase="callbacks", name="Plots"))
    tables = made("slow-callback", 1, 2, Place(phase="callbacks", name="Tables"))
    hook = made("slow-callback", 1, 2, Place(phase="other", name="on_train_batch_end"))
    assert len(staying(plots, tables, grows)) == 3
    assert staying(plots, hook, grows) == ["slow-callback", front]
    ends = made("slow-epoch-end", 1, 2, Place(phase="callbacks", name="Plots"))
    assert staying(plots, ends, grows) == [front]


@pytest.mark.parametrize(("hook", "stays"), [("on_validation_epoch_end", True), (NAME, False)])
def test_a_call_in_validation_is_suppressed_if_it_is_most_of_validation(hook, stays):
    line = Place(file="t.py", line=3, phase="validation")
    call = made("slow-logging", 1, 2, line, Place(phase="validation", name=NAME))
    often = made("frequent-validation", 4, 6, Place(phase="validation", name=hook))
    assert ("slow-logging" in staying(call, often)) == stays


def test_spikes_of_a_hook_with_a_finding_are_reported_once():
    spikes = made("step-time-jitter", 1, 2, Place(phase="other"))
    hook = made("slow-callback", 1, 2, Place(phase="other", name="on_train_batch_end"))
    assert staying(spikes, hook) == ["slow-callback"]
    collected = made("step-time-jitter", 1, 2, Place(phase="garbage_collection"))
    assert len(staying(collected, hook)) == 2


@pytest.mark.parametrize("where", [(), (LINE,)])
def test_a_finding_without_a_place_or_at_a_line_explains_no_time_elsewhere(where):
    site = Place(file="t.py", line=3, phase="callbacks", name="callback:Norms")
    assert len(staying(made("host-sync", 1, 2, site), made("slow-logging", 2, 6, *where))) == 2


def share(phase, name=None, *, ms=10, when=When.IN_STEPS):
    return made("unexplained-share", 0, ms, Place(phase=phase, name=name), when=when)


@pytest.mark.parametrize(
    ("known", "of_share", "stays"),
    [
        (made("data-wait", 0, 1, Place(phase="data_wait")), share("data_wait"), True),
        (made("data-wait", 0, 5, Place(phase="data_wait")), share("data_wait"), False),
        (made("slow-callback", 9, 9, Place(phase="callbacks", name="A")),
         share("callbacks", "A"), False),
        (made("slow-callback", 9, 9, Place(phase="callbacks", name="B")),
         share("callbacks", "A"), True),
        # A callback may work in steps and between epochs: these are two times.
        (made("slow-callback", 9, 9, Place(phase="callbacks", name="A")),
         share("callbacks", "A", when=When.BETWEEN), True),
        (made("slow-epoch-end", 9, 9, Place(phase="callbacks", name="A"), when=When.BETWEEN),
         share("callbacks", "A", when=When.BETWEEN), False),
        # Waiting for workers is not making the loader again.
        (made("worker-startup", 9, 9, Place(phase="data_wait"), when=When.BETWEEN),
         share("data_wait", "train_dataloader", when=When.BETWEEN), True),
        (made("worker-startup", 9, 9, Place(phase="data_wait"), when=When.BETWEEN),
         share("data_wait", when=When.BETWEEN), False),
        (made("frequent-validation", 9, 9, Place(phase="validation"), when=When.ALSO_BETWEEN),
         share("validation", "val_dataloader", when=When.ALSO_BETWEEN), True),
    ],
)  # fmt: skip
def test_a_share_of_the_run_gives_way_to_what_explains_most_of_its_time(known, of_share, stays):
    assert staying(known, of_share) == [known.id, *["unexplained-share"] * stays]
