import pytest
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.schema import Device


@pytest.fixture
def handed(evaluate):
    """Judge 20 ms of handing over per step, all of it idle, with these copies in two steps."""

    def judged(*copies, idle=0, cause="host_python", took=20 * MS, waited=None):
        columns = {
            "device_dur": 10 * MS + took,
            "device/host_to_device": waited or took,
            "run_ahead/host_to_device": 1,
        }
        trace = {
            "copies": [
                {"kind": "HtoD", "memory": "pageable", "count": 2, **copy} for copy in copies
            ],
            "gpu": {"idle_ns": 2 * idle},
            "idle": [{"cause": cause, "total_ns": 2 * idle}],
        }
        options = {"columns": columns, "trace": trace if copies else None}
        phases = {**WORK, "host_to_device": took}
        return evaluate(phases, device=Device(type="cuda"), **options)

    return judged


def test_names_the_hook_that_takes_the_time(evaluate):
    hook = "on_before_batch_transfer"
    phases, parts = {**WORK, "host_to_device": 10 * MS}, {f"host_to_device/{hook}": 9 * MS}
    finding = evaluate(phases, parts=parts)
    assert finding.severity is Severity.CRITICAL
    assert finding.places[0].name == hook
    assert hook in finding.advice
    assert finding.title.startswith(f"{hook} takes 10.0 ms")
    # A tenth of the work may stay; what goes with it differs by up to a fifth.
    assert span(finding) == (7_200 * US, 12 * MS)


def test_proposes_pinned_memory_on_a_gpu_that_copies_from_pageable_memory(handed):
    finding = handed({"count": 4, "bytes": 2_000, "total_ns": 1}, took=2 * MS, waited=MS)
    assert finding.change == "DataLoader(..., pin_memory=True)"
    assert finding.title.startswith("Moving the batch to the device takes 2.00 ms")
    assert finding.evidence["copied_per_step_bytes"] == 1_000
    # The device stood idle for half of it; a thousand bytes take next to nothing.
    assert finding.saving_ns.high == pytest.approx(1_100_000, abs=100)


@pytest.mark.parametrize(
    ("size", "saved_ns"),
    [
        (12_000_000, (14_200_000, 20_000_000 - 187_500)),
        (96_000_000, (200_000, 18_500_000)),
        (1_536_000_000, None),
    ],
)
def test_a_pinned_copy_still_takes_its_bytes_over_the_bus(handed, size, saved_ns):
    finding = handed({"bytes": 2 * size, "total_ns": 40 * MS})
    assert (finding and span(finding)) == saved_ns


def test_kernels_that_are_launched_late_behind_the_copy_may_be_saved_too(handed):
    copy = {"bytes": 384_000_000, "total_ns": 40 * MS}
    assert span(handed(copy)) == (0, 17 * MS)
    for cause in ("host_python", "host_region", "launch_latency"):
        assert span(handed(copy, idle=2 * MS, cause=cause)) == (0, 19 * MS)


NUMBER = {"bytes": 8, "total_ns": 0}
BATCH = {"memory": "pinned", "bytes": 100_000_000, "total_ns": 8 * MS}
SMALL = {"memory": "pinned", "bytes": 2_000, "total_ns": 30 * US}


@pytest.mark.parametrize(
    ("copies", "advice", "saved_ns"),
    [
        ([NUMBER, BATCH], "Send less", 4 * MS),
        ([SMALL | {"count": 4}], "Send less", 15 * US),
        ([SMALL | {"count": 40}], "Pack", 19 * MS),
    ],
    ids=["beside a pageable number", "small", "many small tensors"],
)
def test_for_a_pinned_batch_fewer_bytes_or_copies_are_proposed(handed, copies, advice, saved_ns):
    finding = handed(*copies)
    assert finding.change is None
    assert advice in finding.advice
    assert span(finding) == (0, saved_ns)
    assert (finding.severity is Severity.INFO) == (saved_ns < MS)


def test_is_silent_if_nothing_is_moved(evaluate):
    assert evaluate(WORK) is None


def test_a_small_batch_moves_no_faster_from_pinned_memory(handed):
    assert handed(took=70 * US) is None
    assert span(handed(took=400 * US)) == (249 * US, 325 * US)
