"""How busy the H100 was, against its kernels' own time over steps without the profiler."""

from statistics import mean

import pytest
from raw_trace import RawTrace, union

from lightning_gpuprof.analysis.run.gpu_busy import gpu_busy
from lightning_gpuprof.report.load import load_report

FILE = "plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
TRACED = ("fp32-products", "pageable-copies", "reads-in-a-loop", "small-batch")


@pytest.mark.parametrize("name", TRACED)
def test_it_is_the_work_of_a_step_over_the_steps_time(h100, name):
    results = load_report(str(h100 / name)).results
    raw = RawTrace(h100 / name / FILE)
    # By the launches in each profiled step.
    work = [
        union(event for call, event in raw.launched if step.start <= call.start < step.end)
        for step in raw.steps.values()
    ]
    found = gpu_busy(results)
    assert found.basis == "trace"
    assert found.busy_frac == pytest.approx(
        min(1, mean(work) / results.device.time.dur.mean_ns), abs=0.01
    )


def test_the_driver_saw_a_kernel_all_the_time_where_the_device_is_the_limit(h100):
    results = load_report(str(h100 / "fp32-products")).results
    assert results.device.use.busy_frac == 1.0
    assert gpu_busy(results).busy_frac >= 0.95
