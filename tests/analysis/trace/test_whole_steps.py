"""The device's time over whole steps, edges included, without steps that the profiler distorts."""

import pytest
from analyzed import analyzed_values

from lightning_gpuprof.traces import ReadOptions

US = 1_000


def test_time_before_the_first_and_behind_the_last_event_belongs_to_its_step(
    write_trace, op, step, launched
):
    events = [step(1, 0, 100), op("load", 0, 60, cat="cpu_op"), *launched(1, 70, 80, 10)]
    found = analyzed_values(write_trace(events))
    gpu = found["gpu"]
    assert (gpu["steps"], gpu["span_ns"], gpu["busy_ns"]) == (1, 100 * US, 10 * US)
    assert gpu["first_to_last"]["span_ns"] == gpu["first_to_last"]["busy_ns"] == 10 * US
    assert {row["cause"]: row["total_ns"] for row in found["idle"]} == {
        "host_operator": 60 * US,
        "launch_latency": 10 * US,
        "host_python": 20 * US,  # ten before the launch, ten behind the kernel
    }


def test_what_the_last_step_queued_is_its_work(write_trace, step, launched):
    events = [step(1, 0, 100), *launched(1, 10, 20, 50), *launched(2, 80, 90, 50)]
    gpu = analyzed_values(write_trace(events))["gpu"]
    assert (gpu["span_ns"], gpu["busy_ns"]) == (140 * US, 100 * US)


def test_a_step_that_the_profiler_distorts_is_left_out_and_said(write_trace, step, launched):
    events = [step(1, 0, 900), *launched(9, 5, 890, 20)]
    for number in (2, 3):
        at = 900 + 100 * (number - 2)
        events += [step(number, at, 100), *launched(number, at + 30, at + 40, 40)]
    found = analyzed_values(write_trace(events))
    assert [one["distorted"] for one in found["steps"]] == [True, False, False]
    # From 910 us on, when the first step's kernel has ended.
    assert (found["gpu"]["steps"], found["gpu"]["span_ns"]) == (2, 190 * US)
    assert found["gpu"]["busy_ns"] == 80 * US
    assert any("ProfilerStep#1 takes 9 times as long as usual steps" in one
               for one in found["warnings"])  # fmt: skip


def test_idle_time_in_python_is_named_by_the_traces_own_calls(write_trace, op, step, launched):
    calls = [
        op("train.py(3): main", 0, 100, cat="python_function"),
        op("train.py(7): normalize", 10, 30, cat="python_function"),
        op("<built-in method sum of type object at 0x1>", 20, 10, cat="python_function"),
    ]
    events = [step(1, 0, 100), *calls, *launched(1, 50, 60, 40)]
    found = analyzed_values(write_trace(events), ReadOptions(stacks=True))
    named = {row["name"]: row["total_ns"] for row in found["idle_functions"]}
    assert named == {"train.py(7): normalize": 30 * US, "train.py(3): main": 20 * US}
    assert found["idle_functions"][0]["where"]["line"] == 7


def test_timesformer_waits_for_its_processor(shared_traces):
    name = "facebook_timesformer-base-finetuned-k400__1016002.json.gz"
    path = shared_traces / "kineto" / "tracelens-h100" / name
    found = analyzed_values(str(path), ReadOptions(stacks=True))
    assert found["gpu"]["span_ns"] == pytest.approx(383e6, rel=0.005)
    assert found["gpu"]["busy_frac"] == pytest.approx(0.41, abs=0.01)  # 40.5 % computes
    assert found["gpu"]["first_to_last"]["span_ns"] == pytest.approx(160e6, rel=0.01)
    named = {row["name"]: row["total_ns"] for row in found["idle_functions"]}
    normalize = next(ns for name, ns in named.items() if name.endswith(": normalize"))
    assert normalize == pytest.approx(105e6, rel=0.05)
    reader = next(ns for name, ns in named.items() if "read_video" in name)
    assert reader == pytest.approx(33e6, rel=0.05)  # 24 ms of its own, 9 ms in `to_ndarray`
