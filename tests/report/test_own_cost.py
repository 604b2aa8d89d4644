"""This package's own cost: one figure and one name, wherever it is shown."""

import pytest
from made_records import run_end

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report

MS, US = 1_000_000, 1_000
PHASES = {"forward": 9_685 * US, "callbacks": 315 * US}


@pytest.fixture
def document(make_session, write_run):
    def build(name="GpuProfCallback", **end):
        session = make_session(PHASES, parts={f"callbacks/{name}": 315 * US}, end=False)
        return build_run(load_report(write_run([*session, run_end(100, **end)])))

    return build


def test_it_is_the_callbacks_part_and_the_timing_of_other_phases(document):
    shown = document(timing_ns_per_step=9 * US, own_cost_ns_per_step=50 * US)
    assert shown.figure("own_cost_ns") == 324 * US
    assert shown.figure("own_cost") == (
        "GpuProfCallback takes 324 µs per step (3.24%): 315 µs in callbacks, 9.00 µs for timing "
        "the other phases"
    )


def test_records_of_earlier_versions_name_its_parts_and_the_usual_sum(document):
    shown = document("PhaseTimer", own_cost_ns_per_step=320 * US)
    assert shown.figure("own_cost_ns") == 320 * US


def test_it_is_not_what_takes_most_of_a_step(analyze):
    from lightning_gpuprof.findings.question_figures import FIGURES, FigureInputs

    run = analyze({"forward": MS, "callbacks": 9 * MS}, parts={"callbacks/GpuProfCallback": 8 * MS})
    assert FIGURES["callbacks_share_frac"](FigureInputs(run, None, None)) == pytest.approx(0.1)
