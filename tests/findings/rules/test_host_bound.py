import pytest
from rule_cases import outcome

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.schema import Device, ProfilerCycle


def evaluate(run):
    return outcome("host-bound", run)


US, MS = 1_000, 1_000_000
PHASES = {"forward": 6 * MS, "backward": 4 * MS}
CYCLE = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz")


def traced(count, self_ns):
    operators = [
        {"name": "aten::mul", "count": count, "total_ns": self_ns, "self_ns": self_ns},
        {"name": "aten::mm", "count": 4, "total_ns": 8 * MS, "self_ns": 8 * MS},
    ]
    return {"t.gz": {"operators": operators, "steps": [{}, {}]}}


def test_many_thin_operators_on_a_cpu_are_host_work(analyze):
    run = analyze(PHASES, records=[CYCLE], traces=traced(2_000, 4 * MS))
    finding = evaluate(run)
    # Two steps were traced: 4 ms of matrix products each, so 6 of 10 ms are overhead.
    # The model's size is unknown, so all of its calls count as repeated.
    assert finding.evidence == {
        "step_ns": 10 * MS,
        "overhead_ns": 6 * MS,
        "repeated_ns": 6 * MS,
        "thin_calls_count": 1000,
    }
    assert (finding.saving_ns.low, finding.saving_ns.high) == (3_600_000, 6_000_000)
    assert finding.where[0].name == "aten::mul"


def test_what_the_backward_pass_has_grown_by_since_the_trace_is_no_loops(analyze):
    grows = [4 * MS + step * 100 * US for step in range(160)]
    run = analyze(
        {"forward": 6 * MS, "backward": grows},
        steps=160, records=[CYCLE], traces=traced(2_000, 4 * MS),
    )  # fmt: skip
    # Of the first 30 steps: 6 ms and 5.45, less 4 of matrix products.
    assert evaluate(run).evidence["overhead_ns"] == pytest.approx(7.45 * MS, rel=0.01)


def test_calls_of_hooks_between_backward_and_update_are_not_forwards(analyze):
    traces = traced(2_000, 4 * MS)
    traces["t.gz"]["operators"][0]["update_count"] = 1_900
    assert evaluate(analyze(PHASES, records=[CYCLE], traces=traces)) is None


def test_waiting_for_another_thread_is_no_overhead(analyze):
    wait = LineCount("forward", "t.py", 3, "sample", "with self.lock:", None, None, 50)
    lines = HostLines(200, (wait,), {"forward": 100})
    run = analyze(PHASES, records=[CYCLE, lines], traces=traced(2_000, 4 * MS))
    # Half of the 6 ms of forward.
    assert evaluate(run).evidence["overhead_ns"] == 3 * MS


def test_a_few_thin_operators_are_nothing_to_batch(analyze):
    assert evaluate(analyze(PHASES, records=[CYCLE], traces=traced(100, 100 * US))) is None


def test_calls_of_autograd_alone_are_nothing_to_batch(analyze):
    # As where gradients are differentiated: the program itself calls 75 a step.
    traces = traced(2_000, 4 * MS)
    traces["t.gz"]["operators"][0]["backward_count"] = 1_850
    assert evaluate(analyze(PHASES, records=[CYCLE], traces=traces)) is None


def test_a_loop_that_writes_elements_in_place_is_no_optimizer(analyze):
    traces = traced(2_000, 4 * MS)
    traces["t.gz"]["operators"][0]["name"] = "aten::add_"
    model = {"dtypes": {"float32": 4}, "optimizers": [{"class": "Adam", "fused": True}]}
    finding = evaluate(analyze(PHASES, records=[CYCLE], traces=traces, model=model))
    assert finding.where[0].name == "aten::add_"
    # An update has a few such calls for each of 300 tensors.
    model["dtypes"]["float32"] = 300
    assert evaluate(analyze(PHASES, records=[CYCLE], traces=traces, model=model)) is None


def test_operators_that_make_batches_are_no_part_of_the_models_work(analyze):
    traces = traced(2_000, 4 * MS)
    traces["t.gz"]["operators"][0]["loading_count"] = 2_000
    assert evaluate(analyze(PHASES, records=[CYCLE], traces=traces)) is None


def test_run_ahead_near_the_launch_latency_says_it_on_a_gpu(analyze):
    columns = {"device_dur": 10 * MS, "device/forward": 6 * MS, "run_ahead/forward": 10 * US}
    finding = evaluate(analyze(PHASES, columns=columns, device=Device(type="cuda")))
    assert finding.title == "100.0% of the steps wait for the host to queue work"


def test_a_device_that_is_behind_is_not_host_bound(analyze):
    columns = {"device_dur": 10 * MS, "device/forward": 6 * MS, "run_ahead/forward": 5 * MS}
    assert evaluate(analyze(PHASES, columns=columns, device=Device(type="cuda"))) is None


def test_without_marks_or_a_trace_it_abstains_and_says_what_it_lacks(analyze):
    assert evaluate(analyze(PHASES)).reason == "it takes device marks or an analysed trace"
    assert isinstance(evaluate(analyze({}, steps=0)), Abstained)


def on_gpu(idle_ns, thin_frac):
    idle = [{"cause": "host_operator", "total_ns": idle_ns}, {"cause": "dependency", "total_ns": 1}]
    document = {"gpu": {"idle_ns": idle_ns}, "idle": idle, "steps": [{}, {}]}
    return {"t.gz": {**document, "thin_kernels": {"count_frac": thin_frac}}}


def test_without_marks_a_trace_says_that_the_device_waits_for_launches(analyze):
    traces = on_gpu(12 * MS, 0.1)
    run = analyze(PHASES, records=[CYCLE], traces=traces, device=Device(type="cuda"))

    finding = evaluate(run)

    assert finding.evidence == {"host_idle_ns": 6 * MS, "step_ns": 10 * MS}
    assert (finding.saving_ns.low, finding.saving_ns.high) == (1_800_000, 6 * MS)
    assert "6.00 ms" in finding.title


MARKED = {"device_dur": 12 * MS, "device/forward": 2 * MS, "run_ahead/forward": US}


@pytest.mark.parametrize(("gpu", "most_ns"), [(None, 5 * MS), ({"idle_ns": 0}, 0)])
def test_a_trace_without_kernels_does_not_say_that_fewer_launches_save_nothing(
    analyze, gpu, most_ns
):
    traces = {"t.gz": {**traced(0, 0)["t.gz"], "gpu": gpu}}
    run = analyze(
        PHASES, device=Device(type="cuda"), columns=MARKED, records=[CYCLE], traces=traces,
        model={"dtypes": {"float32": 10}},
    )  # fmt: skip
    saving = evaluate(run).saving_ns
    assert (saving.low, saving.high) == (0, most_ns)


def recurrent(count, total_ns, model=None):
    traces = traced(2_000, 4 * MS)
    layer = {"name": "aten::gru", "count": count, "total_ns": total_ns, "self_ns": 0}
    traces["t.gz"]["operators"].append(layer)
    return {"records": [CYCLE], "traces": traces, "model": model or {}}


def test_the_loop_inside_a_recurrent_layer_is_not_the_users_to_batch(analyze):
    # One call per step, which takes 5 of the 6 ms of forward.
    assert evaluate(analyze(PHASES, **recurrent(2, 10 * MS))) is None


def test_a_recurrent_layer_called_in_a_loop_is_the_users_loop(analyze):
    model = {"dtypes": {"float32": 4}}
    finding = evaluate(analyze(PHASES, **recurrent(60, 10 * MS, model)))
    assert finding.evidence["repeated_ns"] > 5 * MS


def test_a_host_that_queues_little_and_waits_for_a_copy_is_not_what_holds_the_device_back(analyze):
    phases = {"forward": 1 * MS, "backward": 1 * MS, "host_to_device": 10 * MS}
    options = {"device": Device(type="cuda"), "columns": MARKED, "records": [CYCLE]}
    assert evaluate(analyze(phases, traces=traced(0, 0), **options)) is None
    phases = {"forward": 6 * MS, "backward": 5 * MS, "host_to_device": 1 * MS}
    assert evaluate(analyze(phases, traces=traced(0, 0), **options)) is not None
