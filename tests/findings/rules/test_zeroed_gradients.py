import numpy as np
import pytest

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.schema import Device, Note

MS = 1_000_000
MODEL = {"dtypes": {"float32": 100}}


@pytest.fixture
def look(judge):
    def looked(zero_ns, **options):
        phases = {"forward": 20 * MS - zero_ns, "zero_grad": zero_ns}
        return judge("zeroed-gradients", phases, model=MODEL, **options)

    return looked


def test_filling_gradients_with_zeros_is_named(look):
    line = LineCount("zero_grad", "train.py", 9, "optimizer_zero_grad", "p.zero_()", None, None, 50)
    seen = HostLines(50, (line,), {"zero_grad": 50})
    finding = look(2 * MS, records=[Note(step=9, name=NOTE, value=seen)])
    assert finding.title == "Zeroing gradients takes 2.00 ms of each step (10.0%)"
    assert finding.where[0].line == 9
    # 2 ms less 0.3 and 100 times 3 us; a fifth less, and once more what is not the tensors'.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (1_120_000, 4_080_000)


def test_dropping_them_is_what_everybody_does(look):
    assert look(500_000) is None


def test_what_a_few_steps_met_while_zeroing_is_not_zeroing(look):
    few = np.where(np.arange(100) % 10 == 0, 18 * MS, 30_000)
    assert look(few) is None


def test_gradients_that_are_zeroed_in_few_steps_count_by_their_mean(look):
    every_fourth = np.where(np.arange(100) % 4 == 0, 16 * MS, 0)
    assert look(every_fourth).title.startswith("Zeroing gradients takes 4.0")


def test_on_a_gpu_the_hosts_clock_gives_no_least_saving(look):
    assert look(2 * MS, device=Device(type="cuda")).saving_ns.low == 0


def test_without_its_time_it_abstains(judge):
    assert isinstance(judge("zeroed-gradients", {"forward": MS}), Abstained)
