import pytest

from lightning_gpuprof.records.debugging import THREADS_NOTE, ThreadTrial
from lightning_gpuprof.records.schema import Note

MS = 1_000_000
PHASES = {"forward": 4 * MS, "backward": 6 * MS}
TRACE = {"operators": [{"name": "aten::mm", "count": 20, "total_ns": 16 * MS, "self_ns": 16 * MS}]}


@pytest.fixture
def look(judge):
    def looked(as_set_ns, **options):
        trial = ThreadTrial(8, 2, as_set_ns, 100_000)
        notes = [Note(step=1, name=THREADS_NOTE, value=trial)]
        return judge("too-many-threads", PHASES, records=notes, **options)

    return looked


def test_threads_that_slow_operators_down_are_named_with_their_number(look):
    finding = look(200_000, trace=TRACE)
    assert finding.title == (
        "Torch has 8 threads on 2 cores: a matrix product takes 2.0 times as long as with 2"
    )
    assert finding.change == "torch.set_num_threads(2)"
    # Half of the half that 8 ms of operators would gain; half of both passes and a fifth.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (2 * MS, 6 * MS)


def test_without_a_trace_nothing_is_the_least(look):
    assert look(200_000).saving_ns.low == 0


def test_threads_that_cost_nothing_are_nobodys_concern(look):
    assert look(110_000) is None


def test_a_run_without_a_trial_has_nothing_to_report(judge):
    assert judge("too-many-threads", PHASES) is None
