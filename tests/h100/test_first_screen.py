"""Reports of the recorded runs on a GPU: the first screen, and the tables of the device."""

import re

import pytest

from lightning_gpuprof.views.console.console import SCREEN, render
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.documents.report_words import no_change, the_one

RUNS = (
    "device-bound fp32-products host-bound leak pageable-copies reads-in-a-loop small-batch "
    "sync-bound"
).split()
"""Those with steps."""


@pytest.mark.parametrize("run", RUNS)
def test_the_first_screen_answers_the_three_questions(h100, run):
    report = load_report(str(h100 / run))
    lines = render(report, width=80).splitlines()
    screen = "\n".join(lines[:SCREEN])
    assert re.search(r"^GPU", screen, re.M)
    first, said = the_one(report), no_change(report)
    assert first is not None or said[0].upper() in screen
    if first is not None:
        assert first.title in " ".join(screen.split())
        assert re.search("^  change  ", screen, re.M)
        assert re.search("^  gain    ", screen, re.M) or not first.saving_ns.high
    phases = screen[screen.index("WHERE A STEP GOES") :].splitlines()
    assert sum("%" in line for line in phases) >= 4
    assert max(len(line) for line in lines if str(h100) not in line) <= 80


def test_operators_and_kernels_stand_by_their_time_on_the_device(h100):
    text = render(load_report(str(h100 / "small-batch")))
    table = text[text.index("TOP KERNELS") :].splitlines()
    assert table[1] == (
        "31 kernels a step, GEMM 60.9%, occupancy 2.0%, sync 0.1%, launch gaps 10.3%, "
        "exposed copies 0.1%"
    )
    assert table[2].split() == ["time", "share", "calls", "occupancy"]
    operators = text[text.index("TOP OPERATORS") : text.index("TOP KERNELS")]
    assert "by device self time" in operators
    assert operators.splitlines()[2].endswith("aten::mm")  # 102 us there; on the host 644 us
