"""The engine's figures of traces of an H100, against sums over their events in plain Python."""

from collections import Counter, defaultdict
from math import prod
from statistics import median_low

import pytest
from analyzed import analyzed_values
from raw_trace import CALLS, RawTrace, union

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.report.trace_figures import conversion_figures

TRACED = ["fp32-products", "pageable-copies", "reads-in-a-loop", "small-batch"]
FILE = "plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"


@pytest.fixture(scope="module", params=TRACED)
def both(request, h100):
    """A trace in plain Python, and the engine's document of it."""
    path = h100 / request.param / FILE
    return RawTrace(path), analyzed_values(str(path))


def test_busy_idle_and_overlap(both):
    raw, found = both
    # What was launched before the trace began is another step's.
    work = [event for _, event in raw.launched]
    span = max(e.end for e in work) - min(e.start for e in work)
    busy, computing = union(work), union(e for e in work if e.category != "gpu_memcpy")
    copying = union(e for e in work if e.category == "gpu_memcpy")
    split = found["gpu"]["first_to_last"]
    assert {key: split[key] for key in ("span_ns", "busy_ns", "idle_ns")} == {
        "span_ns": span,
        "busy_ns": busy,
        "idle_ns": span - busy,
    }
    assert (split["compute_ns"], split["copy_ns"]) == (computing, copying)
    assert split["exposed_copy_ns"] == busy - computing
    assert split["busy_frac"] == busy / span
    assert sum(cause["total_ns"] for cause in found["idle"]) == found["gpu"]["idle_ns"]


def test_steps_by_number_with_the_device_time_in_each(both):
    raw, found = both
    assert list(raw.steps) == [12, 13, 14, 15]  # of wait=10, warmup=2, active=4
    starts = [found["steps"][0]["start_ns"] - raw.steps[12].start]
    for (number, step), row in zip(raw.steps.items(), found["steps"], strict=True):
        assert row["name"] == f"ProfilerStep#{number}"
        assert row["dur_ns"] == step.dur
        starts.append(row["start_ns"] - step.start)
        inside = [event.within(step) for _, event in raw.launched]
        assert row["gpu"]["busy_ns"] == union(inside)
    assert len(set(starts)) == 1  # all on one clock


def test_matrix_products_run_on_tensor_cores_unless_they_are_fp32(both):
    _, found = both
    products = [row for row in found["kernels"] if row["category"] == "gemm"]
    everything = sum(row["total_ns"] for row in products)
    # Of cuBLAS's names: simt and ffma are the plain units; a sum of partial products is neither.
    plain = sum(
        row["total_ns"]
        for row in products
        if any(word in row["name"] for word in ("simt", "ffma", "splitKreduce"))
    )
    assert products
    assert found["tensor_core_frac"] == pytest.approx(1 - plain / everything)


def test_launches_and_their_delays(both):
    raw, found = both
    launches = found["launches"]
    delays = sorted(event.start - call.start for call, event in raw.launched)
    assert launches["count"] == len(delays)
    assert launches["delay"] | {"p90_ns": 0} == {
        "min_ns": delays[0],
        "median_ns": median_low(delays),
        "p90_ns": 0,
        "max_ns": delays[-1],
        "mean_ns": pytest.approx(sum(delays) / len(delays)),
    }
    begin, end = raw.steps[12].start, raw.steps[15].end
    inside = [call for call, _ in raw.launched if begin <= call.start < end]
    assert launches["launches_per_step"] == len(inside) / 4
    made = Counter(call.name for call in raw.of(*CALLS))
    assert {row["name"]: row["count"] for row in launches["calls"]} == made


def test_the_queue_is_as_deep_as_launches_that_have_not_started(both):
    raw, found = both
    changes = sorted(
        change
        for call, event in raw.launched
        for change in ((call.start, 1), (max(event.start, call.start), -1))
    )
    depth, deepest = 0, 0
    for _, change in changes:
        depth += change
        deepest = max(deepest, depth)
    assert found["launches"]["queue_depth"]["max"] == deepest


def test_copies_by_direction_and_memory(both):
    raw, found = both
    expected = defaultdict(lambda: [0, 0, 0])
    for _, event in raw.launched:
        if event.category != "kernel":
            _, _, way = event.name.partition("Memcpy ")
            kind = way.partition(" ")[0] if way else "Memset"
            memory = next((m for m in ("Pageable", "Pinned") if m in way), None)
            row = expected[kind, memory and memory.lower()]
            for index, value in enumerate((1, event.args["bytes"], event.dur)):
                row[index] += value
    assert {
        (row["kind"], row["memory"]): [row["count"], row["bytes"], row["total_ns"]]
        for row in found["copies"]
    } == expected
    assert all(
        row["bytes_per_s"] == pytest.approx(row["bytes"] / row["total_ns"] * 1e9)
        for row in found["copies"]
    )


def test_the_host_waits_where_it_is_in_a_call_that_waits(both):
    raw, found = both
    steps = raw.steps.values()

    def in_step(call):
        return any(step.start <= call.start < step.end for step in steps)

    waits = [call for call in raw.of(*CALLS) if call.name.endswith("Synchronize") and in_step(call)]
    # A pageable upload is in its call but for the driver's last piece; other copies never wait.
    uploads = [call for call, event in raw.launched if "HtoD (Pageable" in event.name]
    uploads = [call for call in uploads if in_step(call)]
    assert found["sync_count"] == len(waits) + len(uploads)
    assert found["sync_ns"] == sum(call.dur for call in waits + uploads)
    assert found["upload_wait_ns"] == sum(call.dur for call in uploads)
    assert sum(row["blocked_ns"] for row in found["syncs"]) == found["sync_ns"]
    share = union(waits + uploads) / union(steps)
    assert found["sync_frac"] == pytest.approx(share, abs=1e-4)
    kinds = {row["name"]: (row["count"], row["total_ns"]) for row in found["sync_kinds"]}
    wide = [call.dur for call in waits if call.name == "cudaDeviceSynchronize"]
    assert kinds.get("device", (0, 0)) == (len(wide), sum(wide))
    assert sum(took for _, took in kinds.values()) == found["sync_ns"]


def test_occupancy_is_a_mean_over_time_of_what_the_profiler_says_of_each_launch(both):
    raw, found = both
    launches = [event for _, event in raw.launched if event.category == "kernel"]
    said = {
        "occupancy_frac": ("est. achieved occupancy %", 100),
        "blocks_per_sm": ("blocks per SM", 1),
        "warps_per_sm": ("warps per SM", 1),
    }
    for row in (*found["kernels"], {"name": None, **found["occupancy"]}):
        own = [event for event in launches if row["name"] in (None, event.name)]
        for key, (name, per) in said.items():
            # No warp in flight while some are launched on each multiprocessor: not known.
            known = [e for e in own if e.args[name] or per == 1 or e.args["warps per SM"] < 1]
            whole = sum(float(event.args[name]) / per * event.dur for event in known)
            took = sum(event.dur for event in known)
            assert row.get(key) == (pytest.approx(whole / took, rel=1e-5) if known else None)


def test_copies_by_to_are_counted_with_the_bytes_of_their_inputs(both):
    raw, found = both
    copies = [event for event in raw.of("cpu_op") if event.name == "aten::_to_copy"]
    sizes = {"float": 4, "long int": 8, "double": 8}
    read = [prod(e.args["Input Dims"][0]) * sizes[e.args["Input type"][0]] for e in copies]
    assert found["to_bytes"] == (sum(read) if read else None)
    calls = [event for event in raw.of("cpu_op") if event.name == "aten::to"]
    figure = next(conversion_figures(analyze_file(found["file"])), None)
    assert (None if figure is None else figure.value) == (len(calls) / 4 if calls else None)
