"""A run whose trace has impossible durations: that is said, and no finding rests on them."""

import gzip
import json
import shutil

from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, TRACE_SUFFIX
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.load import load_report


def spoil(trace):
    """Let two kernels last for seconds, as some profilers write now and then."""
    document = json.loads(gzip.decompress(trace.read_bytes()))
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    for kernel in kernels[20:22]:
        kernel["dur"] = 1_600_000
    trace.write_bytes(gzip.compress(json.dumps(document).encode()))
    trace.with_name(trace.name + ANALYSIS_SUFFIX).unlink()


def test_what_rests_on_such_a_trace_is_not_found_and_the_reason_comes_first(h100, tmp_path):
    run = shutil.copytree(h100 / "small-batch", tmp_path / "small-batch")
    before = load_report(str(run))
    [trace] = run.rglob(f"*{TRACE_SUFFIX}")
    spoil(trace)
    after = load_report(str(run), analyse=True)
    assert trace_facts(after.results).doubted
    assert "2 of " in after.notices[0]
    assert "impossible durations" in after.notices[0]
    assert "impossible durations" in " ".join(render(build_run(after)).splitlines()[1:3])
    assert "small-kernels" in {one.id for one in before.findings}
    assert "small-kernels" not in {one.id for one in after.findings}
    assert "lost-kernels" not in {one.id for one in after.findings}
    # The marks still say who waits; how busy the device was is not known any more.
    headline = build_run(after).section("headline")
    [busy] = [figure for figure in headline.body[0].figures if figure.key == "gpu_busy_frac"]
    assert busy.value is None
    assert busy.note.startswith("it waits for the host")
