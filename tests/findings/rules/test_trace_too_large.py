from rule_cases import WORK

from lightning_gpuprof.records.schema import ProfilerCycle

GB = 10**9


def test_a_trace_beyond_what_viewers_open_proposes_fewer_steps(evaluate):
    cycle = {"cycle": 1, "first_step": 10, "last_step": 19, "trace_file": "t.gz"}
    large = ProfilerCycle(**cycle, trace_bytes=2 * GB)
    finding = evaluate(WORK, records=[large])
    assert finding.change == "GpuProfCallback(active=2, with_stack=False, record_shapes=False)"


def test_the_large_trace_of_a_capture_was_asked_for(evaluate):
    cycle = {"cycle": 1, "first_step": 10, "last_step": 19, "trace_file": "t.gz", "capture": 0}
    assert evaluate(WORK, records=[ProfilerCycle(**cycle, trace_bytes=2 * GB)]) is None
