from rule_cases import GPU, H100, WORK

from lightning_gpuprof.findings.model import Severity


def test_a_trace_of_a_gpu_run_without_anything_of_the_gpu_says_so(evaluate):
    empty = {"quality": {"lost_kernels": 0, "launch_count": 0}}
    finding = evaluate(WORK, trace=empty, device=H100)
    assert finding.severity is Severity.WARNING
    assert finding.evidence == {"device_events_count": 0, "launches_count": 0}
    assert "KINETO_LOG_LEVEL=0" in finding.advice
    assert evaluate(WORK, trace={**empty, "gpu": GPU}, device=H100) is None
    assert evaluate(WORK, trace=empty) is None, "on a CPU there is nothing to lack"


def test_lost_kernels_are_counted(evaluate):
    def judged(lost):
        quality = {"lost_kernels": lost, "launch_count": 1_000}
        return evaluate(WORK, trace={"quality": quality})

    assert judged(50).severity is Severity.WARNING
    assert judged(50).evidence["lost_kernels_frac"] == 0.05
    assert judged(0) is None
