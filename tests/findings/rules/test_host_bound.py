import pytest
from rule_cases import MS, US, WORK, op, span

from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import Device

CUDA = Device(type="cuda")
MARKED = {"device_dur": 12 * MS, "device/forward": 2 * MS, "run_ahead/forward": US}


def traced(count, self_ns, **own):
    return {"operators": [op("aten::mul", count, self_ns) | own, op("aten::mm", 4, 8 * MS)]}


def test_many_short_operators_on_a_cpu_are_host_work(evaluate):
    finding = evaluate(WORK, trace=traced(2_000, 4 * MS))
    # Two steps were traced: 4 ms of matrix products each, so 6 of 10 ms are overhead.
    # The model's size is unknown, so all of its calls count as repeated.
    assert finding.evidence == {
        "step_ns": 10 * MS,
        "overhead_ns": 6 * MS,
        "repeated_ns": 6 * MS,
        "thin_calls_count": 1000,
    }
    assert span(finding) == (3_600_000, 6_000_000)
    assert finding.places[0].name == "aten::mul"


def test_growth_of_the_backward_pass_since_the_trace_is_not_due_to_loops(evaluate):
    grows = [4 * MS + step * 100 * US for step in range(160)]
    phases = WORK | {"backward": grows}
    finding = evaluate(phases, steps=160, trace=traced(2_000, 4 * MS))
    # Of the first 30 steps: 6 ms and 5.45, less 4 of matrix products.
    assert finding.evidence["overhead_ns"] == pytest.approx(7.45 * MS, rel=0.01)


@pytest.mark.parametrize(
    "own",
    [
        {"update_count": 1_900},  # of hooks between backward and update
        {"backward_count": 1_850},  # where gradients are differentiated; the program has 75 a step
        {"loading_count": 2_000},  # of what makes batches
    ],
)
def test_calls_outside_forward_cannot_be_batched(evaluate, own):
    assert evaluate(WORK, trace=traced(2_000, 4 * MS, **own)) is None


def test_waiting_for_another_thread_is_no_overhead(evaluate):
    wait = LineCount("forward", "t.py", 3, "sample", "with self.lock:", None, None, 50)
    lines = HostLines(200, (wait,), {"forward": 100})
    finding = evaluate(WORK, records=[lines], trace=traced(2_000, 4 * MS))
    assert finding.evidence["overhead_ns"] == 3 * MS  # half of the 6 ms of forward


def test_a_few_short_operators_are_not_worth_batching(evaluate):
    assert evaluate(WORK, trace=traced(100, 100 * US)) is None


def test_a_loop_that_writes_elements_in_place_is_not_an_optimizer(evaluate):
    trace = traced(2_000, 4 * MS, name="aten::add_")
    model = {"dtypes": {"float32": 4}, "optimizers": [{"class": "Adam", "fused": True}]}
    finding = evaluate(WORK, trace=trace, model=model)
    assert finding.places[0].name == "aten::add_"
    # An update has a few such calls for each of 300 tensors.
    model["dtypes"]["float32"] = 300
    assert evaluate(WORK, trace=trace, model=model) is None


def test_a_gpu_is_host_bound_if_the_host_is_hardly_ahead_of_it(evaluate):
    columns = {"device_dur": 10 * MS, "device/forward": 6 * MS, "run_ahead/forward": 10 * US}
    finding = evaluate(WORK, columns=columns, device=CUDA)
    assert finding.title == "100% of the steps wait for the host to queue work"
    columns["run_ahead/forward"] = 5 * MS
    assert evaluate(WORK, columns=columns, device=CUDA) is None


def test_without_marks_or_a_trace_it_says_what_it_lacks(evaluate):
    assert evaluate(WORK).reason == "it needs timing events on the device, or an analysed trace"


def test_without_marks_a_trace_says_that_the_device_waits_for_launches(evaluate):
    idle = [{"cause": "host_operator", "total_ns": 12 * MS}, {"cause": "dependency", "total_ns": 1}]
    trace = {"gpu": {"idle_ns": 12 * MS}, "idle": idle, "thin_kernels": {"count_frac": 0.1}}
    finding = evaluate(WORK, trace=trace, device=CUDA)
    assert finding.evidence == {"host_idle_ns": 6 * MS, "step_ns": 10 * MS}
    assert span(finding) == (1_800_000, 6 * MS)
    assert "6.00 ms" in finding.title


@pytest.mark.parametrize(("gpu", "most_ns"), [(None, 5 * MS), ({"idle_ns": 0}, 0)])
def test_without_kernels_in_the_trace_fewer_launches_may_still_save_time(evaluate, gpu, most_ns):
    trace, model = traced(0, 0) | {"gpu": gpu}, {"dtypes": {"float32": 10}}
    finding = evaluate(WORK, device=CUDA, columns=MARKED, trace=trace, model=model)
    assert span(finding) == (0, most_ns)


def test_a_loop_around_a_recurrent_layer_can_be_batched_but_not_the_loop_inside_it(evaluate):
    trace, layer = traced(2_000, 4 * MS), op("aten::gru", 2, 10 * MS, 0)
    trace["operators"].append(layer)
    # One call per step, which takes 5 of the 6 ms of forward.
    assert evaluate(WORK, trace=trace) is None
    layer["count"] = 60
    finding = evaluate(WORK, trace=trace, model={"dtypes": {"float32": 4}})
    assert finding.evidence["repeated_ns"] > 5 * MS


def test_a_host_that_waits_for_a_copy_does_not_hold_the_device_back(evaluate):
    phases = {"forward": 1 * MS, "backward": 1 * MS, "host_to_device": 10 * MS}
    options = {"device": CUDA, "columns": MARKED, "trace": traced(0, 0)}
    assert evaluate(phases, **options) is None
    phases = {"forward": 6 * MS, "backward": 5 * MS, "host_to_device": 1 * MS}
    assert evaluate(phases, **options) is not None
