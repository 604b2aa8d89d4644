import pytest
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Device

UNKNOWN = Device(type="cuda")


def test_names_the_hook_that_takes_the_time(judge):
    finding = judge(
        "slow-host-to-device-copy",
        {**WORK, "host_to_device": 10 * MS},
        parts={"host_to_device/on_before_batch_transfer": 9 * MS},
    )
    assert finding.severity is Severity.CRITICAL
    assert finding.where[0].name == "on_before_batch_transfer"
    assert "on_before_batch_transfer" in finding.advice
    assert finding.title.startswith("on_before_batch_transfer takes 10.0 ms")
    # A tenth of the work may stay; what goes with it differs by up to a fifth.
    assert span(finding) == (7_200 * US, 12 * MS)


def test_proposes_pinned_memory_on_a_gpu_that_copies_from_pageable_memory(judge):
    copies = [{"kind": "HtoD", "memory": "pageable", "count": 4, "bytes": 2_000, "total_ns": 1}]
    finding = judge(
        "slow-host-to-device-copy",
        {**WORK, "host_to_device": 2 * MS},
        device=Device(type="cuda"),
        columns={
            "device_dur": 12 * MS,
            "device/host_to_device": MS,
            "run_ahead/host_to_device": 1,
        },
        trace={"copies": copies},
    )
    assert finding.change == "DataLoader(..., pin_memory=True)"
    assert finding.title.startswith("Handing the batch to the device takes 2.00 ms")
    assert finding.evidence["copied_per_step_bytes"] == 1_000
    # The device stood idle for half of it; a thousand bytes take next to nothing.
    assert finding.saving_ns.high == pytest.approx(1_100_000, abs=100)


@pytest.mark.parametrize(
    ("size", "low", "high"),
    [
        (12_000_000, 14_200_000, 20_000_000 - 187_500),
        (96_000_000, 200_000, 18_500_000),
    ],
)
def test_a_pinned_copy_still_takes_its_bytes_over_the_bus(judge, size, low, high):
    finding = judged(
        judge, {"memory": "pageable", "count": 2, "bytes": 2 * size, "total_ns": 40 * MS}
    )
    assert span(finding) == (low, high)


def test_is_silent_where_the_bus_takes_all_of_it(judge):
    copy = {"memory": "pageable", "count": 2, "bytes": 2 * 1_536_000_000, "total_ns": 40 * MS}
    assert judged(judge, copy) is None


def judged(judge, *copies, idle=0, cause="host_python", took=20 * MS, device=UNKNOWN):
    """Judge 20 ms of handing over per step, all of it idle, with these copies in two steps."""
    return judge(
        "slow-host-to-device-copy",
        {**WORK, "host_to_device": took},
        device=device,
        columns={
            "device_dur": 10 * MS + took,
            "device/host_to_device": took,
            "run_ahead/host_to_device": 1,
        },
        trace={
            "copies": [{"kind": "HtoD", **one} for one in copies],
            "gpu": {"idle_ns": 2 * idle},
            "idle": [{"cause": cause, "total_ns": 2 * idle}],
        },
    )


def test_what_the_held_up_host_launches_late_may_be_saved_too(judge):
    copy = {"memory": "pageable", "count": 2, "bytes": 384_000_000, "total_ns": 40 * MS}
    assert span(judged(judge, copy)) == (0, 17 * MS)
    for cause in ("host_python", "host_region", "launch_latency"):
        assert span(judged(judge, copy, idle=2 * MS, cause=cause)) == (0, 19 * MS)


def test_a_pageable_number_beside_a_pinned_batch_makes_no_pageable_batch(judge):
    number = {"memory": "pageable", "count": 2, "bytes": 8, "total_ns": 0}
    batch = {"memory": "pinned", "count": 2, "bytes": 100_000_000, "total_ns": 8 * MS}
    finding = judged(judge, number, batch)
    assert finding.change is None
    assert "Send less" in finding.advice
    assert span(finding) == (0, 4 * MS)


def test_where_every_copy_is_pinned_fewer_bytes_save_what_the_device_copies(judge):
    finding = judged(judge, {"memory": "pinned", "count": 4, "bytes": 2_000, "total_ns": 30 * US})
    assert finding.change is None
    assert "Send less" in finding.advice
    assert span(finding) == (0, 15 * US)
    assert finding.severity is Severity.INFO


def test_many_small_tensors_in_one_save_their_calls(judge):
    finding = judged(judge, {"memory": "pinned", "count": 40, "bytes": 2_000, "total_ns": 30 * US})
    assert "Pack" in finding.advice
    assert span(finding) == (0, 19 * MS)


def test_is_silent_where_nothing_is_handed_over(judge):
    assert judge("slow-host-to-device-copy", WORK) is None


def test_a_small_batch_is_handed_over_no_faster_from_pinned_memory(judge):
    def judge_of(transfer_ns):
        return judge(
            "slow-host-to-device-copy",
            {**WORK, "host_to_device": transfer_ns},
            device=Device(type="cuda"),
            columns={
                "device_dur": 12 * MS,
                "device/host_to_device": transfer_ns,
                "run_ahead/host_to_device": 1,
            },
        )

    assert judge_of(70 * US) is None
    assert span(judge_of(400 * US)) == (249 * US, 325 * US)
