"""Traces of inference: steps by the marks there are, and advice for inference alone."""

import re

import pytest

from lightning_gpuprof.analysis.trace.step_marks import model_call
from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.document import encode

TRAINING = re.compile(
    rb"(?<!no )optimizer|DataLoader|gradient|loss|training|GpuProfCallback|epoch",
    re.IGNORECASE,
)
GRAPHS = re.compile(rb"(?:with|capture\w*|as|or) (?:a )?CUDA graphs?|reduce-overhead")


@pytest.fixture
def served(write_trace, op, launched):
    """Write a trace of an engine: each mark holds a replay of 40 kernels; times in µs."""

    def write(marks, *, graphs=True, inner=(), outer=None, training=False, kernel_us=4):
        events, at, correlation = [], 0, 0
        for mark in marks:
            events.append(op(mark, at, 2_000, cat="user_annotation"))
            for index, name in enumerate(inner):
                events.append(op(name, at + 100 + 500 * index, 400, cat="user_annotation"))
            events += [op(f"aten::op{kind}", at + 10 * kind, 5) for kind in range(9)]
            for kernel in range(40):
                correlation += not graphs or not kernel
                call, work = launched(
                    correlation,
                    at + 120 + (0 if graphs else 20 * kernel),
                    at + 140 + 20 * kernel,
                    kernel_us,
                    call="cudaGraphLaunch" if graphs else "cudaLaunchKernel",
                    name="fused_moe" if kernel % 2 else "rms_norm_kernel",
                )
                events += [work] if graphs and kernel else [call, work]
            if training:
                events.append(op("autograd::engine::evaluate_function: MmBackward0", at + 900, 50))
            at += 2_100
        if outer:
            events.append(op(outer, 0, at, cat="user_annotation"))
        return write_trace(events)

    return write


VLLM = [f"execute_context_{step % 2}({64 * (step % 2)})_generation_16(16)" for step in range(12)]
SGLANG = ["step[EXTEND bs=1 toks=512]", *["step[DECODE bs=16]"] * 11]
TENSORRT = [f"[Executor] _forward_step {step}: 0 ctx reqs, 16 gen reqs" for step in range(12)]
ATOM = ["prefill[bs=2 tok=64]", *["decode[bs=16]"] * 11]
INNER = ("gpu_model_runner: preprocess", "gpu_model_runner: forward", "gpu_model_runner: sample")


@pytest.mark.parametrize(
    ("marks", "options", "engine"),
    [
        (VLLM, {"inner": INNER}, "vLLM"),
        (SGLANG, {}, "SGLang"),
        (TENSORRT, {}, "TensorRT-LLM"),
        (ATOM, {}, "ATOM"),
        (["execute_model"] * 12, {"outer": "generate"}, None),
        (["forward"] * 12, {"graphs": False}, None),
    ],
)
def test_each_call_of_the_model_is_a_step(served, marks, options, engine):
    analysis = analyze_file(served(marks, **options))
    assert (analysis.purpose, analysis.engine) == ("inference", engine)
    assert [step.name for step in analysis.steps] == marks
    assert (analysis.distinct_steps, analysis.gpu.steps) == (12, 12)
    assert not any(step.distorted for step in analysis.steps)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("marks", [VLLM, SGLANG, ["execute_model"] * 12])
def test_advice_is_for_inference_alone(served, marks, graphs):
    document = trace_document(analyze_file(served(marks, graphs=graphs)))
    text = encode(document)
    assert TRAINING.findall(text) == []
    assert document.section("origin") is not None


@pytest.mark.parametrize("marks", [VLLM, ["execute_model"] * 12])
def test_graphs_that_are_in_use_are_not_proposed(served, marks):
    document = trace_document(analyze_file(served(marks)))
    assert GRAPHS.findall(encode(document)) == []
    assert "CUDA graphs are in use" in document.verdict.sentence
    without = trace_document(analyze_file(served(marks, graphs=False)))
    assert GRAPHS.findall(encode(without))


def test_a_training_step_between_such_marks_is_no_inference(served):
    analysis = analyze_file(served(["forward"] * 12, training=True))
    assert (analysis.purpose, analysis.steps) == ("training", ())


def test_a_few_operators_alone_show_neither(write_trace, op, launched):
    path = write_trace([op(), *launched(1, 2, 20, 5), op("forward", 0, 9, cat="user_annotation")])
    assert analyze_file(path).purpose is None


def test_steps_of_which_some_do_more_are_all_usual(served, write_trace):
    analysis = analyze_file(served(SGLANG, kernel_us=10))
    assert sum(step.gpu.busy_ns for step in analysis.steps) == 12 * 40 * 10_000


def test_calls_of_one_kind_have_one_name():
    assert model_call("decode[bs=1]") == model_call("prefill[bs=2 tok=9]")
    assert model_call("step[DECODE bs=1]") == model_call("step[EXTEND bs=1 toks=9]")
    assert model_call("forward") != model_call("sample")


def test_a_call_of_the_model_can_be_chosen_by_its_number(served):
    path = served(SGLANG)
    analysis = analyze_file(path, step=0)
    assert analysis.window.name == "step[EXTEND bs=1 toks=512]"
    assert analysis.gpu.busy_ns == 40 * 4_000
    with pytest.raises(TraceError, match=r"no step 12\. Its steps are: step\[EXTEND"):
        analyze_file(path, step=12)
