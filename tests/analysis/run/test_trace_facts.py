"""Idle time per step of a trace in which one step stood still."""

import pytest

from lightning_gpuprof.analysis.run.trace_facts import TraceFacts

MS = 1_000_000


def test_what_a_traced_step_stood_still_for_counts_where_a_single_event_was_the_cause():
    def mark(start_ns, dur_ns, idle_ns):
        return {"start_ns": start_ns, "dur_ns": dur_ns, "gpu": {"idle_ns": idle_ns}}

    # All but 4 ms of the last step's gaps is one call for memory.
    marks = [
        mark(0, 10 * MS, 4 * MS),
        mark(10 * MS, 10 * MS, 4 * MS),
        mark(20 * MS, 90 * MS, 84 * MS),
    ]
    gap = {"cause": "host_allocator", "start_ns": 25 * MS, "dur_ns": 80 * MS}
    idle = [
        {"cause": "host_operator", "total_ns": 12 * MS, "count": 1},
        {"cause": "host_allocator", "total_ns": 80 * MS, "count": 1},
    ]
    facts = TraceFacts({"gpu": {}, "steps": marks, "idle": idle, "gaps": [gap]}, 3, 1.0)
    assert facts.idle_ns("host_operator") == 4 * MS
    assert facts.idle_ns("host_allocator") == pytest.approx(80 * MS / 3)


def test_a_loop_of_reads_is_taken_off_like_the_idle_time_that_holds_it():
    marks = [
        {"dur_ns": dur_ns * MS, "gpu": {"idle_ns": ns * MS}}
        for dur_ns, ns in ((10, 4), (10, 4), (90, 84))
    ]
    loop = {"read_count": 60, "total_ns": 9 * MS, "event_count": 600, "waited_ns": MS}
    facts = TraceFacts({"gpu": {}, "steps": marks, "read_loops": loop}, 3, 1.0)
    assert facts.loop_idle_ns() == pytest.approx(9 * MS / 3 * 12 / 92)
