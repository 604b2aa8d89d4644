from lightning_gpuprof.analysis.trace.idle import idle_causes
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace.time_split import device_spans
from lightning_gpuprof.traces.builder import TimelineBuilder


def test_a_call_without_a_duration_does_not_take_the_time_after_it():
    made = TimelineBuilder("made up")
    thread = made.thread(1, 1)
    made.host(0, 1000, "model.py(1): forward", "python_function", thread)
    made.host(10, 20, "cudaLaunchKernel", "cuda_runtime", thread, 1)
    made.host(200, 200, "model.py(9): size", "python_function", thread)
    made.host(900, 950, "cudaLaunchKernel", "cuda_runtime", thread, 2)
    made.device(20, 100, "first", "kernel", 0, 7, 1)
    made.device(960, 990, "second", "kernel", 0, 7, 2)
    trace = link(made.build())

    report = idle_causes(trace, device_spans(trace.timeline)[0])

    assert [(row.name, row.total_ns) for row in report.functions] == [("model.py(1): forward", 800)]
