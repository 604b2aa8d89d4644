import pytest

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines
from lightning_gpuprof.records.debugging import THREADS_NOTE, ThreadTrial
from lightning_gpuprof.records.notes import ThreadUse
from lightning_gpuprof.records.schema import Note

MS = 1_000_000
SECOND = 1_000 * MS
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


def samples(queued_frac):
    use = ThreadUse(10 * SECOND, 2 * SECOND, round(queued_frac * 10 * SECOND), ())
    return Note(step=9, name=NOTE, value=HostLines(90, (), {"forward": 90}, threads=use))


def test_untried_threads_are_told_by_the_time_that_training_waits_for_a_core(judge):
    finding = judge(
        "too-many-threads", PHASES, records=[samples(0.6)], torch_threads=12, cpu_count=2
    )
    assert finding.title == (
        "Torch has 12 threads on 2 cores: the training thread waits for a core 60.0% of the time"
    )
    # Half of the 6 ms that both passes wait; all of both.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (3 * MS, 10 * MS)


@pytest.mark.parametrize(("queued_frac", "threads"), [(0.1, 12), (0.6, 2)])
def test_a_busy_machine_alone_is_no_reason(judge, queued_frac, threads):
    records = [samples(queued_frac)]
    options = {"torch_threads": threads, "cpu_count": 2}
    assert judge("too-many-threads", PHASES, records=records, **options) is None


def test_untried_threads_without_an_account_of_their_times_are_not_judged(judge):
    outcome = judge("too-many-threads", PHASES, torch_threads=12, cpu_count=2)
    assert "12 threads on 2 cores were not tried" in outcome.reason
