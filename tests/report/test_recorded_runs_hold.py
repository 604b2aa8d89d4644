"""Every recorded run and every real trace: figures that hold, and no two that contradict."""

import json
import re

import msgspec
import pytest
from analyzed import analyzed_values
from document_values import ends, values_of
from recorded import RECORDED, lay_out, numbers

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.findings.engine import step_of
from lightning_gpuprof.findings.questions import State, answer_questions
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import Bars
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.run.limit import waiting_side

RUNS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
NO_SHARE = {"jitter_frac", "roof_frac"}
"""How far a value lies above another, which may be more than that; of a roof, which is a model."""
WAITS_FOR = {
    "low-precision-unused": {"it is the limit"},
    "memory-bound-kernels": {"it is the limit"},
    "host-bound": {"it waits for the host"},
    "small-kernels": {"it waits for the host", "the host stops to wait for it"},
    "host-sync": {"the host stops to wait for it", "it waits for the host"},
    "slow-host-to-device-copy": {"mostly with copies"},
    "data-wait": {"it waits for data"},
}
"""What the first line may say beside a first finding on what all steps wait for."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The reports of all recorded runs by name."""
    logdir = lay_out(tmp_path_factory.mktemp("recorded") / "h100")
    return {name: load_report(str(logdir / name)) for name in RUNS}


@pytest.fixture(params=RUNS)
def report(request, recorded):
    """The report of one recorded run."""
    return recorded[request.param]


@pytest.fixture(scope="session")
def analyzed(shared_traces):
    """The documents of all real traces, by their path."""
    found = {}
    for kind in ("kineto/**/*.json*", "nsys/*.sqlite", "jax/**/*.pb", "rocprof/**/*.db"):
        for path in sorted(shared_traces.glob(kind)):
            try:
                found[str(path.relative_to(shared_traces))] = analyzed_values(str(path))
            except GpuProfError:
                continue  # no trace: a reference beside one
    return found


def shares(document):
    """Yield the place and value of each share in a document."""
    for at, names, value in numbers(document):
        named = any(name == "frac" or name.endswith("_frac") for name in names[-2:])
        if isinstance(value, float) and named and not NO_SHARE & set(names):
            yield at, value


def too_large(document):
    return {at: share for at, share in shares(document) if not -1e-9 <= share <= 1 + 1e-9}


def splits(document):
    """Yield each split of a device's time in an analysis."""
    for gpu in document.get("gpus") or [document["gpu"]]:
        if gpu:
            yield gpu
            yield gpu["first_to_last"]
            assert sum(row["total_ns"] for row in gpu["idle"]) == gpu["idle_ns"]
    yield from (step["gpu"] for step in document["steps"] if step["gpu"])


def add_up(document):
    parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
    for split in splits(document):
        assert sum(split[part] for part in parts) == split["span_ns"]
        assert split["busy_ns"] + split["idle_ns"] == split["span_ns"]


def test_no_share_of_a_run_is_above_100_percent(report):
    document = build_run(report)
    too_large = {
        at: value
        for at, unit, value in values_of(document)
        if unit == "frac" and at.rpartition(".")[2] not in NO_SHARE
        for bound in ends(value)
        if not -1e-9 <= bound <= 1 + 1e-9
    }
    assert too_large == {}
    shown = re.findall(r"(?<![+\d.])(\d+(?:\.\d+)?) ?%", render(document, verbose=True))
    assert [share for share in shown if float(share) > 100] == []


def test_the_parts_of_a_run_add_up(report):
    document = build_run(report)
    for trace in report.results.traces:
        add_up(json.loads(msgspec.json.encode(trace.analysis)))
    bars = {part.id: part.bars for part in document.parts(Bars)}
    if "gpu_busy" in bars:
        busy = document.figure("gpu_busy_frac")
        assert sum(bar.frac for bar in bars["gpu_busy"]) == pytest.approx(1)
        idle = next(bar.frac for bar in bars["gpu_busy"] if bar.key == "idle_frac")
        assert busy + idle == pytest.approx(1)
    if "phases" in bars:
        phases = sum(bar.value for bar in bars["phases"] if not bar.level)
        assert phases == pytest.approx(document.figure("mean_ns"), rel=0.01)


def test_the_headline_and_the_verdict_agree(report):
    document = build_run(report)
    verdict, headline = document.verdict, document.section("headline")
    if headline is None:
        return
    busy = next(figure for figure in headline.body[0].figures if figure.key == "gpu_busy_frac")
    if verdict.finding in WAITS_FOR and busy.value is not None:
        assert any(words in busy.note for words in WAITS_FOR[verdict.finding]), busy.note
    if verdict.kind not in ("change", "too_short") and waiting_side(report.results) is not None:
        assert verdict.kind == "limit"


def test_no_figure_is_both_ok_and_to_be_looked_at(report):
    states = {}
    for answer in answer_questions(report.results, report.findings, report.abstained):
        if answer.value:
            states.setdefault(answer.value, set()).add(answer.state)
    assert {value for value, both in states.items() if {State.OK, State.LOOK} <= both} == set()


def test_figures_of_real_traces_hold(analyzed):
    assert len(analyzed) > 30
    for name, document in analyzed.items():
        assert (name, too_large(document)) == (name, {})
        add_up(document)


def test_no_saving_is_above_its_bound(report):
    for finding in report.findings:
        saving, step_ns = finding.saving_ns, step_of(finding, report.results)
        assert saving.low <= saving.high
        if finding.cause_ns is not None:
            at = finding.places[0].phase if finding.places else None
            phase = report.results.per_step(Phase(at)) if at else None
            parts = [one.per_step for one in report.results.parts if one.per_step]
            error = max((one.error_frac for one in [phase, *parts] if one), default=0.0)
            assert saving.high <= round(finding.cause_ns.high * (1 + error)) + 1, finding
        assert step_ns is None or saving.high <= 0.95 * step_ns + 1, finding
