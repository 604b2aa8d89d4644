import pytest
from rule_cases import GPU, H100, MS, US, WORK, op, span


def test_small_kernels_cost_the_gaps_between_them(evaluate):
    trace = {
        "gpu": GPU,
        "thin_kernels": {"count": 800, "total_ns": MS, "count_frac": 0.8},
        "idle": [
            {"cause": "launch_latency", "total_ns": 2 * MS, "count": 1},
            {"cause": "host_python", "total_ns": 4 * MS, "count": 1},
            {"cause": "host_data_wait", "total_ns": 9 * MS, "count": 1},
        ],
        "kernels": [{"name": "add", "category": "elementwise", "count": 9, "mean_ns": 2_000}],
    }
    finding = evaluate(WORK, trace=trace, device=H100)
    assert span(finding) == (MS, 3 * MS)
    assert finding.places[0].kernel == "add"


THIN = {
    "gpu": GPU | {"compute_ns": 2 * MS, "busy_ns": 2 * MS},
    "thin_kernels": {"count": 180, "total_ns": MS, "count_frac": 0.9},
    "launches": {"kernel_count": 200, "overhead": {"median_ns": 5 * US}},
    "idle": [
        {"cause": "host_operator", "total_ns": 24 * MS, "count": 1},
        {"cause": "host_region", "total_ns": 4 * MS, "count": 1},
    ],
}
"""Two steps of 90 thin kernels each, before which the device idles for 14 ms of each."""


HOST_BOUND = {"device_dur": 20 * MS, "device/forward": 20 * MS, "run_ahead/forward": US}


@pytest.fixture
def thin(evaluate):
    """Judge the kernels of `THIN`, with so much of its trace changed."""

    def judged(phases=WORK, **changed):
        options = {"device": H100, "columns": HOST_BOUND, "trace": THIN | changed}
        return evaluate(phases, **options)

    return judged


def test_captured_kernels_still_run_and_what_the_trainer_does_stays(thin):
    phases = {**WORK, "optimizer_step": 10 * MS}
    finding = thin(phases)
    # Of forward and backward 10 ms less 1 of kernels; the launching calls of 90 go at least.
    assert span(finding) == (450 * US, 9 * MS)
    assert "idles 14.0 ms" in finding.title
    updates = [{"name": "adam", "category": "optimizer", "count": 80, "mean_ns": 3_000}]
    assert span(thin(phases, kernels=updates)) == (250 * US, 9 * MS)


@pytest.mark.parametrize(("reads", "reported"), [(38, True), (160, True), (170, False)])
def test_the_kernels_of_a_loop_of_reads_are_host_syncs(thin, reads, reported):
    # Of 80 reads a step the other 20 kernels are thin in half of the cases, of 85 in a third.
    assert (thin(operators=[op("aten::item", reads, MS)]) is not None) == reported


@pytest.mark.parametrize(("busy_ns", "high"), [(14 * MS, 3 * MS), (18 * MS, MS), (24 * MS, None)])
def test_no_more_is_saved_than_the_device_is_idle(thin, busy_ns, high):
    finding = thin(gpu=THIN["gpu"] | {"busy_ns": busy_ns})
    assert (finding and finding.saving_ns.high) == high
    assert finding is None or finding.evidence["gaps_ns"] == high


@pytest.mark.parametrize(
    "together",
    [
        {"launches": {"kernel_count": 200, "graph_count": 4, "graphed_thin_count": 90}},
        {"operators": [{"name": "aten::_cudnn_rnn_backward", "count": 2, "device_count": 90}]},
    ],
)
def test_short_kernels_that_one_call_launches_do_not_count(thin, together):
    assert thin(**together) is None


def test_a_part_that_is_a_graph_already_is_not_to_be_captured_again(thin):
    finding = thin(launches=THIN["launches"] | {"graph_count": 4, "graphed_thin_count": 40})
    assert finding.change is None
    assert finding.advice.startswith("Part of the step is a graph already")
    assert finding.saving_ns.low == 70 * 5 * US
