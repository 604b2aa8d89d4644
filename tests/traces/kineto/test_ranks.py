"""Files that join the traces of several ranks: told apart where they say how, else refused."""

from pathlib import Path

import pytest
from analyzed import analyzed_values

from lightning_gpuprof.analysis.timeline.layout import lay_out
from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.findings.trace_findings import judge_trace
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.traces import open_timeline

MERGED = str(Path(__file__).parents[2] / "data" / "cases" / "42_merged_ranks.trace.json.gz")
RANKS = ["TP00", "TP01", "TP02", "TP03"]
MS = 1_000_000


def rank_events(rank, pid, device_pid, *, device=0, first=1, count=4):
    """Four steps of one kernel, which takes 10 µs more on each further rank; times in µs."""
    events = []
    for step in range(count):
        ts, correlation = 1_000 * step, first + step
        mark = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": ts}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 5}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": ts + 20}
        where = {"device": device, "stream": 7, "correlation": correlation}
        events += [
            mark | {"dur": 1_000, "pid": pid, "tid": 1},
            call | {"dur": 4, "pid": pid, "tid": 1, "args": {"correlation": correlation}},
            kernel | {"dur": 100 + 10 * rank, "pid": device_pid, "tid": 7, "args": where},
        ]
    return events


def busy_us(analysis):
    return [split.busy_ns // 1_000 for split in analysis.gpus]


def test_ranks_that_a_label_tells_apart_are_devices_of_their_own():
    found = analyzed_values(MERGED)
    assert [split["rank"] for split in found["gpus"]] == RANKS
    assert [split["busy_ns"] for split in found["gpus"]] == [3 * MS, 3.6 * MS, 4.2 * MS, 4.8 * MS]
    assert [split["span_ns"] for split in found["gpus"]] == [12 * MS] * 4
    assert [split["steps"] for split in found["gpus"]] == [3] * 4
    assert sum(row["count"] for row in found["kernels"]) == 4 * 60
    assert (found["quality"]["lost_kernels"], found["quality"]["orphan_kernels"]) == (0, 0)
    assert found["device"]["name"] == "NVIDIA H100"


def test_each_step_has_the_time_of_its_own_ranks_device():
    analysis = analyze_file(MERGED)
    assert analysis.distinct_steps == 3
    by_rank = {rank: [] for rank in RANKS}
    for step in analysis.steps:
        by_rank[step.rank].append(step.gpu.busy_ns)
    assert by_rank == {
        rank: [round(busy * MS)] * 3 for rank, busy in zip(RANKS, (1, 1.2, 1.4, 1.6), strict=True)
    }


def test_the_document_names_the_ranks_and_figures_are_per_step_of_a_rank():
    document = trace_document(analyze_file(MERGED))
    (note,) = document.section("origin").body[0].lines
    assert note.startswith("The file joins the traces of 4 ranks")
    assert "busy 25% (TP00) to 40% (TP03); findings are of TP00." in note
    assert document.section("device_time_2").title == "The time of device 2 (TP02)"
    assert {row["rank"] for row in document.rows("steps")} == set(RANKS)
    assert not any("launches have no kernel" in text for text in document_texts(document))


def document_texts(document):
    return [str(part) for section in document.sections for part in section.body]


def test_ranks_in_place_of_the_process_id_are_told_apart(write_trace):
    path = write_trace(rank_events(0, 0, 0) + rank_events(1, 1, 1))
    analysis = analyze_file(path)
    assert [split.rank for split in analysis.gpus] == ["rank 0", "rank 1"]
    assert busy_us(analysis) == [400, 440]
    assert analysis.quality.lost_kernels == 0


def test_a_device_under_several_process_ids_is_one_of_each_rank(write_trace):
    """A tool that adds an offset to process and correlation ids leaves `device` as it was."""
    path = write_trace(rank_events(0, 41, 0) + rank_events(1, 1_041, 1_000, first=1_001))
    analysis = analyze_file(path)
    assert [split.device for split in analysis.gpus] == [0, 1]
    assert busy_us(analysis) == [400, 440]
    assert [split.steps for split in analysis.gpus] == [4, 4]


def test_equal_correlation_ids_of_several_processes_are_refused(write_trace):
    path = write_trace(rank_events(0, 41, 0) + rank_events(1, 42, 1, device=1))
    with pytest.raises(TraceError, match=r"processes 41, 42 .* Give each rank's own file"):
        open_timeline(path)


def test_devices_of_a_single_process_keep_their_numbers(write_trace):
    path = write_trace(rank_events(0, 41, 2, device=2) + rank_events(1, 41, 5, device=5, first=50))
    timeline = open_timeline(path)
    assert sorted(set(timeline.device.device.tolist())) == [2, 5]
    assert [device.rank for device in timeline.devices] == [None, None]
    assert timeline.device.correlation.max() == 53


def test_equal_correlation_ids_within_a_process_are_refused(write_trace):
    """In containers, the processes of all ranks may have the same id."""
    path = write_trace(rank_events(0, 7, 0) + rank_events(1, 7, 1, device=1))
    with pytest.raises(TraceError, match=r"one process have the same correlation ids.*own file"):
        open_timeline(path)


@pytest.mark.parametrize("label", ["rank{}_{}", "[TP{}-DP00] {}", "{1} (rank {0})", "{1} [DP{0}]"])
def test_labels_of_several_tools_are_known(write_trace, label):
    events = [
        event
        for rank in (0, 1)
        for event in rank_events(rank, label.format(rank, 41), label.format(rank, 0))
    ]
    analysis = analyze_file(write_trace(events))
    assert len({split.rank for split in analysis.gpus}) == 2
    assert busy_us(analysis) == [400, 440]


def test_findings_are_per_step_of_the_first_rank():
    """Four ranks mark a step of 4 ms each: it is no step of 1 ms, and none of 16 ms."""
    run, judged = judge_trace(analyze_file(MERGED))
    assert (run.steps.count, run.step_ns) == (3, 4 * MS)
    assert judged.findings[0].cause_ns.high == 3 * MS


def test_threads_and_streams_of_the_timeline_carry_their_rank():
    labels = [group.label for group in lay_out(open_timeline(MERGED)).groups]
    assert labels.count("TP02 thread 7") == 2  # annotations, and operators with their calls
    assert "TP02 device 2 stream 7" in labels
