import pytest
from msgspec import structs
from rule_cases import MS, op, outcome, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Place
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.lines import HostLines, LineCount


def evaluate(run):
    return outcome("slow-python", run)


PHASES = {"forward": 10 * MS, "data_wait": 5 * MS, "clip_gradients": 5 * MS}
BACKWARD = {**PHASES, "backward": 10 * MS}


def line(number, count, *, kind, phase="forward", function="augment"):
    return LineCount(phase, "train.py", number, function, f"line {number}", None, kind, count)


@pytest.fixture
def sampled(analyze):
    """Return a run whose stack was sampled at these lines, 100 times in each phase."""

    def made(*lines, per_phase=100, operators_ns=None, mark=(), phases=PHASES, **operator):
        by_phase = dict.fromkeys(
            [*phases, *(sampled_line.phase for sampled_line in lines)], per_phase
        )
        all_lines, trace = HostLines(len(phases) * per_phase, lines, by_phase), None
        if operators_ns is not None:
            rows = [op("aten::mm", 1, operators_ns) | operator]
            trace = {"operators": rows, "steps": [dict(mark)]}
        return analyze(phases, records=[all_lines], trace=trace)

    return made


def test_python_in_the_forward_pass_is_named_with_its_line(sampled):
    run = sampled(line(3, 50, kind="python"), line(40, 50, kind="model", function="training_step"))
    (finding,) = evaluate(run)
    assert finding.evidence["python_ns"] == 5 * MS
    assert finding.title.startswith("20 to 30% of each step goes to Python in augment")
    assert finding.places == (Place(file="train.py", line=3, source="line 3", phase="forward"),)
    # Half of 100 samples is a share of 0.4 to 0.6; a tenth of the low bound may stay, and what
    # goes with the high one is a fifth.
    assert span(finding) == (3_600_000, 7_200_000)


def test_a_wait_for_worker_processes_of_the_programs_own_has_advice_by_effort(sampled):
    (finding,) = evaluate(sampled(line(3, 50, kind="workers"), line(40, 50, kind="model")))
    assert finding.title.endswith("of each step goes to waiting for your own worker processes")
    at = [finding.advice.index(word) for word in ("1. send one message", "4. copy", "6. keep")]
    assert at == sorted(at)
    assert "ParallelEnv(..., pin_memory=True)" in finding.advice
    assert "dataset" not in finding.advice


@pytest.mark.parametrize(("doubt", "severity"), [(0, "critical"), (45, "info")])
def test_a_share_that_may_be_next_to_nothing_is_no_warning(sampled, doubt, severity):
    doubtful = structs.replace(line(3, 50, kind="python"), doubt=doubt)
    beside = structs.replace(line(4, 50, kind="model"), doubt=1)
    (finding,) = evaluate(sampled(doubtful, beside))
    assert finding.severity.value == severity


def test_a_line_that_runs_itself_counts_as_its_function_does(sampled):
    (finding,) = evaluate(sampled(line(3, 30, kind="python"), line(4, 20, kind=None)))
    assert finding.evidence["python_ns"] == 5 * MS


def test_a_single_call_of_a_library_does_not_make_its_function_python(sampled):
    lines = line(3, 20, kind="python"), line(4, 40, kind=None)
    assert [f.evidence["python_ns"] for f in evaluate(sampled(*lines))] == [2 * MS]


def test_time_beside_operators_has_a_finding_beside_that_of_a_library(sampled):
    lines = (
        line(3, 30, kind="python"),
        line(8, 40, kind=None, function="match"),
        line(5, 30, kind="model", function="training_step"),
    )
    library, own = evaluate(sampled(*lines, operators_ns=2 * MS))
    assert library.evidence["python_ns"] == 3 * MS
    assert (own.evidence["python_ns"], own.places[0].line) == (4 * MS, 8)
    # 10 ms less 6 ms of operators and 3 ms in the library leave one for the line.
    assert len(evaluate(sampled(*lines, operators_ns=6 * MS))) == 1


def test_what_a_logging_line_computes_is_computed_for_the_log(sampled):
    run = sampled(
        line(3, 30, kind="log", phase="logging"),
        line(3, 20, kind=None),
        line(9, 50, kind="model"),
        line(8, 5, kind=None),
    )
    (finding,) = evaluate(run)
    # The call itself is slow-logging's.
    assert finding.evidence["python_ns"] == 2 * MS
    assert "goes to what augment logs" in finding.title


def test_a_line_beside_the_models_own_may_be_an_operator(sampled):
    run = sampled(line(3, 30, kind="python"), line(4, 20, kind=None), line(5, 9, kind="model"))
    (finding,) = evaluate(run)
    assert finding.evidence["python_ns"] == 3 * MS


def test_a_line_that_no_operator_is_long_enough_for_is_python(sampled):
    lines = line(3, 60, kind=None, function="training_step"), line(5, 40, kind="model")
    (finding,) = evaluate(sampled(*lines, operators_ns=MS))
    assert finding.evidence["python_ns"] == 6 * MS
    assert finding.places[0].line == 3
    # 0.6 of 100 samples is 0.5 to 0.7 of 10 ms, which has 9 ms beside the operator.
    assert finding.saving_ns.low == pytest.approx(0.9 * 5_020_204, rel=1e-3)
    assert finding.saving_ns.high == pytest.approx(1.2 * 6_979_796, rel=1e-3)
    # An operator that takes what the model's line does leaves as much.
    assert evaluate(sampled(*lines, operators_ns=4 * MS))[0].evidence["python_ns"] == 5_990_000
    (finding,) = evaluate(sampled(*lines, operators_ns=6_500_000))
    assert span(finding) == (3_141_000, 4_200_000)
    assert evaluate(sampled(*lines, operators_ns=8 * MS)) == ()
    # An update of weights copies in place as well, but so does every change of layout.
    assert evaluate(sampled(*lines, operators_ns=8 * MS, name="aten::copy_")) == ()
    assert evaluate(sampled(*lines)) == ()


def test_an_optimizers_update_is_not_an_operator_of_forward(sampled):
    lines = line(3, 60, kind=None, function="training_step"), line(5, 40, kind="model")
    updates = {"update_count": 1, "update_self_ns": 7 * MS}
    (finding,) = evaluate(sampled(*lines, operators_ns=8 * MS, name="aten::sqrt", **updates))
    assert finding.evidence["python_ns"] == 6 * MS


def test_growth_of_forward_since_its_trace_is_not_python(analyze):
    lines = line(3, 60, kind=None, function="remember"), line(5, 40, kind="model")
    all_lines = HostLines(200, lines, {"forward": 100, "backward": 100})
    trace = {"operators": [op("aten::mm", 1, 4 * MS)], "steps": [{}]}

    def findings_with(forward):
        phases = {"forward": forward, "backward": 5 * MS}
        return evaluate(analyze(phases, records=[all_lines], trace=trace, steps=160))

    assert findings_with([4 * MS + step * 75_000 for step in range(160)]) == ()
    assert len(findings_with([(4 + (step % 2) * 12) * MS for step in range(160)])) == 1


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("self.mean = torch.stack(self.kept).mean()", 0),
        ("(slope,) = torch.autograd.grad(self.energy(x).sum(), x)", 0),
        ("y = nn.functional.scaled_dot_product_attention(q, k, v)", 0),
        ("return torch.tensor([max(iou(a, b) for b in boxes) for a in anchors])", 1),
    ],
)
def test_a_line_that_calls_an_operator_by_name_spent_its_time_in_it(sampled, source, findings):
    sampled_line = LineCount("forward", "train.py", 3, "remember", source, None, None, 60)
    model = line(5, 40, kind="model")
    assert len(evaluate(sampled(sampled_line, model, operators_ns=MS))) == findings


def test_a_module_that_clips_its_gradients_itself_is_named(sampled):
    run = sampled(line(7, 80, kind=None, phase="clip_gradients", function="clip"))
    (finding,) = evaluate(run)
    assert finding.evidence["python_ns"] == 4 * MS
    assert "clipping in clip" in finding.title


def test_what_hooks_on_modules_compute_is_named_with_its_operators(sampled):
    run = sampled(line(9, 50, kind="hook", function="watch"), line(40, 50, kind="model"))
    (finding,) = evaluate(run)
    assert finding.evidence["python_ns"] == 5 * MS
    assert "watch, a module's hook" in finding.title


def test_small_functions_that_call_each_other_are_one_piece_of_work(sampled):
    lines = [line(n, 12, kind=None, function=name) for n, name in enumerate(("iou", "max", "all"))]
    (finding,) = evaluate(sampled(*lines, line(5, 64, kind="model"), operators_ns=MS))
    assert finding.evidence["python_ns"] == 3_600_000


def test_a_model_that_only_computes_has_nothing_to_report(sampled):
    assert evaluate(sampled(line(40, 90, kind="model"), line(41, 9, kind="log"))) == ()


def test_few_samples_are_not_enough(sampled):
    assert isinstance(evaluate(sampled(line(3, 9, kind="python"), per_phase=10)), Abstained)


SPENT = (
    line(21, 30, kind="python", phase="data_wait", function="tokenize"),
    line(22, 10, kind=None, phase="data_wait", function="tokenize"),
    line(30, 5, kind=None, phase="data_wait", function="__len__"),
)
SELDOM = (line(21, 4, kind="python", phase="data_wait"),)


@pytest.mark.parametrize(("lines", "per_phase", "expected"), [(SPENT, 100, [21]), (SELDOM, 9, [])])
def test_a_finding_of_a_phase_is_given_the_line_where_it_was_spent(
    sampled, lines, per_phase, expected
):
    (finding,) = evaluate_rules(
        sampled(*lines, per_phase=per_phase), [rules()["data-wait"]]
    ).findings
    assert [where.line for where in finding.places if where.file == "train.py"] == expected


def test_profiled_steps_that_took_twice_as_long_do_not_show_time_beside_operators(sampled):
    lines = line(3, 60, kind=None, function="training_step"), line(5, 40, kind="model")
    assert len(evaluate(sampled(*lines, operators_ns=MS, mark={"dur_ns": 39 * MS}))) == 1
    assert evaluate(sampled(*lines, operators_ns=MS, mark={"dur_ns": 41 * MS})) == ()


def test_formatting_of_stacks_by_anomaly_detection_is_sampled(analyze):
    all_lines = HostLines(100, (line(8, 80, kind="traceback"),), {"forward": 100})
    run = analyze(PHASES, records=[all_lines], trainer={"detect_anomaly": True})
    (finding,) = evaluate_rules(run, [rules()["anomaly-detection-on"]]).findings
    # 80 of 100 samples of 10 ms of forward: 0.72 to 0.88 of it, and half the step at most.
    assert finding.saving_ns.low == 7_200_000
    assert finding.saving_ns.high >= 8_800_000


def test_a_hook_on_gradients_is_named_with_its_line(sampled):
    hook = line(7, 30, kind=None, phase="backward", function="watch")
    (finding,) = evaluate(sampled(hook, phases=BACKWARD))
    assert finding.evidence["python_ns"] == 3 * MS
    assert finding.title.endswith("goes to watch, called in backward")
    assert finding.places[0].line == 7


@pytest.mark.parametrize(
    ("kind", "function"), [(None, "backward"), ("model", "forward"), ("wait", "watch")]
)
def test_lines_of_the_backward_pass_itself_are_not_hooks(sampled, kind, function):
    own = line(7, 60, kind=kind, phase="backward", function=function)
    assert evaluate(sampled(own, phases=BACKWARD)) == ()


def test_a_library_called_in_an_operators_own_backward_pass_is_python(sampled):
    own = line(7, 60, kind="python", phase="backward", function="backward")
    (finding,) = evaluate(sampled(own, phases=BACKWARD))
    assert finding.evidence["python_ns"] == 6 * MS


def test_a_program_that_calls_update_already_is_not_told_to(sampled):
    asked = structs.replace(line(3, 60, kind="metric"), source="self.auroc.update(scores, labels)")
    (finding,) = evaluate(sampled(asked))
    assert "fewer thresholds" in finding.advice
    assert "log the metric object" not in finding.advice
    called = structs.replace(line(3, 60, kind="metric"), source="self.auroc(scores, labels)")
    (finding,) = evaluate(sampled(called))
    assert "Call the metric's update()" in finding.advice
