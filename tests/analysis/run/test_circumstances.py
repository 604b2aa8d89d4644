"""What else is known of the steps of a session."""

import numpy as np
import pytest
from made_records import MS, memory

from lightning_gpuprof.records.facts import HostCounters, ProcessMemory
from lightning_gpuprof.records.schema import DeviceSample

GIB = 2**30


def test_sizes_and_memory_are_those_of_the_usual_step(analyze):
    records = [ProcessMemory(step, step * GIB) for step in (1, 2, 9)]
    run = analyze({"forward": MS}, samples=8, columns={"numbers": 512}, records=records)
    assert run.circumstances["samples_per_batch_count"] == 8
    assert run.circumstances["numbers_per_batch_count"] == 512
    assert run.circumstances["process_memory_bytes"] == 2 * GIB


def test_memory_of_the_device_is_what_is_allocated_between_steps(analyze):
    readings = [memory(9 * GIB, step=step, allocated_bytes=GIB) for step in (10, 20)]
    assert analyze({"forward": MS}, records=readings).circumstances["device_memory_bytes"] == GIB


def test_collections_are_counted_by_their_steps(analyze):
    collected = np.where(np.arange(100) % 20 == 0, MS, 0)
    run = analyze({"forward": MS, "garbage_collection": collected})
    assert run.circumstances["collections_per_1000_steps_count"] == pytest.approx(50)


def test_counters_of_the_host_are_rates_between_the_first_reading_and_the_last(analyze):
    first = HostCounters(step=10, wall_ns=0, cpu_ns=0, queued_ns=0, minor_faults=0)
    last = HostCounters(
        step=60, wall_ns=100 * MS, cpu_ns=150 * MS, queued_ns=20 * MS, minor_faults=5_000
    )
    found = analyze({"forward": MS}, records=[first, last]).circumstances
    assert found["cores_used_count"] == 1.5
    assert found["waiting_for_a_core_frac"] == 0.2
    assert found["new_pages_per_step_count"] == 100
    assert "pages_read_per_step_count" not in found


def test_the_clock_of_the_core_is_that_of_the_usual_reading(analyze):
    readings = [
        HostCounters(step=step, wall_ns=step * MS, cpu_ns=0, core_mhz=mhz)
        for step, mhz in ((10, 3_000), (20, 1_200), (30, 2_900))
    ]
    found = analyze({"forward": MS}, records=readings).circumstances
    assert found["core_clock_mhz_count"] == 2_900
    assert "waiting_for_a_core_frac" not in found


def test_a_single_reading_is_no_rate(analyze):
    reading = HostCounters(step=10, wall_ns=0, cpu_ns=0, queued_ns=0)
    assert "cores_used_count" not in analyze({"forward": MS}, records=[reading]).circumstances


def test_clocks_that_the_driver_held_down_are_said(analyze):
    sample = DeviceSample(
        step=9, start_ns=0, end_ns=MS, samples=2, busy_frac=0.5, min_sm_clock_mhz=900,
        throttle_frac={"power": 0.25, "heat": 0.0}, max_others_count=1,
    )  # fmt: skip
    found = analyze({"forward": MS}, records=[sample]).circumstances
    assert found["device_busy_frac"] == 0.5
    assert found["lowest_clock_mhz_count"] == 900
    assert found["clocks_held_down_frac"] == 0.25
    assert found["other_processes_count"] == 1


def test_what_was_not_measured_is_absent(analyze):
    assert analyze({"forward": MS}).circumstances.keys() <= {"collections_per_1000_steps_count"}
