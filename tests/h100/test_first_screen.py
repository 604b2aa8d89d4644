"""Reports of the recorded runs on a GPU: the first screen, and the tables of the device."""

import re

import pytest

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import SCREEN, render
from lightning_gpuprof.report.load import load_report

RUNS = (
    "device-bound fp32-products host-bound leak pageable-copies reads-in-a-loop small-batch "
    "sync-bound"
).split()
"""Those with steps."""


@pytest.mark.parametrize("run", RUNS)
def test_the_first_screen_answers_the_three_questions(h100, run):
    document = build_run(load_report(str(h100 / run)))
    lines = render(document, width=80).splitlines()
    screen = "\n".join(lines[:SCREEN])
    assert re.search(r"^GPU busy", screen, re.M)
    verdict = document.verdict
    assert verdict.title in " ".join(screen.split())
    if verdict.kind == "change":
        assert re.search("^  change  ", screen, re.M)
        assert re.search("^  gain    ", screen, re.M) or verdict.gain is None
    phases = screen[screen.index("WHERE A STEP GOES") :].splitlines()
    assert sum("%" in line for line in phases) >= 4
    assert max(len(line) for line in lines if str(h100) not in line) <= 80


def test_operators_and_kernels_stand_by_their_time_on_the_device(h100):
    text = render(build_run(load_report(str(h100 / "small-batch"))))
    table = text[text.index("TOP KERNELS") :].splitlines()
    figures = " ".join(" ".join(table[1:3]).split())
    assert figures == (
        "Kernels 31, Matrix multiplies 61%, Occupancy 2.0%, Host syncs 0%, Launch gaps 98%, "
        "Launch overhead 12%, Exposed copies 0.1%"
    )
    assert table[3].split() == ["Kernel", "Time", "Share", "Calls", "Occupancy"]
    operators = text[text.index("TOP OPERATORS") : text.index("TOP KERNELS")]
    assert "by device self time" in operators
    assert operators.splitlines()[2].startswith("  aten::mm")  # 102 us there; on the host 644 us
