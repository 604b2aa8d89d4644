"""No document has two figures of one fact: made runs, recordings, the fault suite, real traces."""

import pytest
from document_samples import SAMPLES
from msgspec.structs import replace
from one_figure_per_fact import contradictions

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.report.build_file import build_file
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Document,
    Figure,
    Figures,
    Section,
    Subject,
    Text,
)

IMPOSSIBLE_WALL = "made/hostile <b>run</b>"
"""Its made record has more time in steps than between its beginning and its end."""


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_sample_contradicts_itself(kind, tmp_path):
    documents = SAMPLES[kind](tmp_path)
    documents.pop(IMPOSSIBLE_WALL, None)
    found = {name: contradictions(document) for name, document in documents.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_no_real_trace_contradicts_itself(shared_traces):
    found, read = {}, 0
    for path in sorted(path for path in shared_traces.rglob("*") if path.is_file()):
        try:
            page = build_file(str(path)) or trace_document(analyze_file(str(path)))
        except TraceError:
            continue
        read += 1
        if texts := contradictions(page):
            found[path.name] = texts
    assert read > 60
    assert found == {}


def document(*sections):
    return Document(SCHEMA_VERSION, Subject("trace", "a", ""), sections)


def section(name, *figures):
    return Section(name, "", "page", (Figures(figures),))


def test_two_figures_of_one_fact_are_found():
    syncs = Figure("sync_frac", "Host syncs", 0.5, "frac")
    page = document(section("one", syncs), section("two", replace(syncs, value=0.388)))
    assert "sync_frac of all differs" in contradictions(page)[0]
    cycles = document(section("kernels", syncs), section("kernels_1", replace(syncs, value=0.3)))
    assert contradictions(cycles) == []  # of another cycle


def text(*sentences):
    return Section("told", "", "page", (Text(sentences),))


def test_a_figure_in_a_sentence_is_a_figure_of_the_document():
    step = section("step_time", Figure("step_ns", "Step time", 10_000_000, "ns"))
    wait = section("facts", Figure("wait_ns", "wait", 4_000_000, "ns"))
    assert contradictions(document(step, wait, text("4.00 ms of it wait (40%)"))) == []
    wrong = contradictions(document(step, wait, text("4.50 ms of it wait (45%)")))
    assert ["4.50 ms in" in wrong[0], "45% in" in wrong[1]] == [True, True]


def test_a_saving_is_compared_with_the_step_of_the_document():
    step = section("step_time", Figure("step_ns", "Step time", 10_000_000, "ns"))
    other = section("facts", Figure("other_ns", "other", 12_000_000, "ns"))
    sentence = "a step of 10.0 ms instead of 12.0 ms"
    assert "compares with another step" in contradictions(document(step, other, text(sentence)))[0]
    assert contradictions(document(step, text("a step of 10.0 ms instead of 10.0 ms"))) == []


def test_impossible_figures_are_found():
    above = document(section("one", Figure("sync_frac", "", 1.082, "frac")))
    assert contradictions(above) == ["sync_frac is 1.082"]
    times = [Figure(key, "", value, "ns") for key, value in (("mean_ns", 18.8), ("max_ns", 16.8))]
    assert "a mean of 18.8" in contradictions(document(section("step_time", *times)))[0]
    shares = {"busy_frac": 0.07, "launch_gaps_frac": 0.098, "launch_overhead_frac": 0.2}
    figures = [Figure(key, "", value, "frac") for key, value in shares.items()]
    texts = contradictions(document(section("trace_figures", *figures)))
    assert ["are not all" in texts[0], "is more than" in texts[1]] == [True, True]
