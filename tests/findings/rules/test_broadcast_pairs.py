"""Pairs of rows that are written out by broadcasting, and summed up."""

import pytest
import torch
from rule_cases import MS, span
from torch.nn import functional as F

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.rules.broadcast_pairs import CHANGES
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, Broadcast, FunctionNotes
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"forward": 4 * MS, "backward": 6 * MS}
PLACE = CallPlace("train.py", 27, "apart", "(a[:, None] - b).pow(2).sum(-1)")


@pytest.fixture
def look(judge):
    def looked(kind="squares", *, taken_ns=MS, trained=True, **options):
        one = Broadcast(kind, taken_ns, 1, 1 << 23, 1 << 16, 3, trained, (PLACE,))
        note = Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(broadcast=(one,)))
        return judge("broadcast-pairs", PHASES, records=[note], **options)

    return looked


def test_squared_distances_are_named_with_their_line_and_a_product_for_them(look):
    (finding,) = look()
    assert finding.title == (
        "Squared distances of all pairs are written to memory before they are summed up: 8.00 MiB "
        "from 64.0 KiB, 1.00 ms of the forward pass (10.0% of the step)"
    )
    assert (finding.where[0].file, finding.where[0].line) == ("train.py", 27)
    assert finding.severity is Severity.CRITICAL
    assert span(finding) == (1_600_000, 5_000_000)


def test_without_a_way_back_the_forward_pass_is_all(look):
    (finding,) = look(trained=False)
    assert span(finding) == (700_000, 2_200_000)


def test_absolute_differences_save_less_for_sure(look):
    (finding,) = look("absolute")
    assert span(finding) == (800_000, 5_000_000)


def test_the_way_back_through_products_is_longer(look):
    (finding,) = look("product")
    assert span(finding) == (1_800_000, 7_000_000)


def test_on_a_gpu_the_hosts_clock_times_launches_and_gives_no_saving(look):
    (finding,) = look(device=Device(type="cuda"))
    assert span(finding) == (0, 0)
    assert finding.severity is Severity.INFO
    assert finding.title.endswith("launched in 1.00 ms; the device's time was not measured")


def test_a_short_one_is_not_told(look):
    assert look(taken_ns=MS // 20) == ()


def test_abstains_where_no_forward_pass_was_looked_at(judge):
    assert isinstance(judge("broadcast-pairs", PHASES), Abstained)


WIDE = {
    "squares": lambda a, b: (a.unsqueeze(-2) - b.unsqueeze(-3)).pow(2).sum(-1),
    "distance": lambda a, b: (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(dim=-1),
    "absolute": lambda a, b: (a.unsqueeze(-2) - b.unsqueeze(-3)).abs().sum(-1),
    "product": lambda a, b: (a.unsqueeze(-2) * b.unsqueeze(-3)).sum(-1),
    "cosine": lambda a, b: F.cosine_similarity(a.unsqueeze(-2), b.unsqueeze(-3), dim=-1),
}


@pytest.mark.parametrize("shape", [(5,), (2, 5)])
@pytest.mark.parametrize("kind", list(CHANGES))
def test_the_change_that_is_pasted_gives_the_same_numbers(kind, shape):
    torch.manual_seed(0)
    a, b = torch.rand(*shape, 4, dtype=torch.double), torch.rand(*shape[:-1], 7, 4).double()
    names = {"a": a, "b": b, "torch": torch, "F": F}
    *first, last = CHANGES[kind][1].split("\n")
    exec("\n".join(first), names)
    pasted = eval(last.removeprefix("squares = "), names)
    assert torch.allclose(pasted, WIDE[kind](a, b))
