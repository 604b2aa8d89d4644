import pytest
from rule_cases import EPOCH_FLAGS, EPOCHS, MS, REMADE, US, WORK, every, span, unmarked

from lightning_gpuprof.findings.model import When
from lightning_gpuprof.records.schema import Loader, OutsideSpan, StepFlag

ONE_WORKER = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}


def test_proposes_to_keep_the_workers(evaluate):
    (finding,) = evaluate(EPOCHS, **ONE_WORKER)
    # 99.9 ms at each of 10 epochs, of which the first stays, and a fifth more that goes with
    # it; one batch at least is made.
    step_ns = finding.evidence["step_ns"]
    assert finding.saving_ns.high == round(1.2 * 9 * 99_900 * US / 100)
    assert finding.saving_ns.low == (99_900 * US - step_ns) * 9 // 100
    assert finding.change == "DataLoader(..., num_workers=1, persistent_workers=True)"


def test_a_first_step_that_copies_memory_shared_with_workers_may_get_shorter_too(evaluate):
    (plain,) = evaluate(EPOCHS, **ONE_WORKER)
    (slower,) = evaluate({**EPOCHS, "forward": every(10, 26 * MS, 6 * MS)}, **ONE_WORKER)
    most = plain.saving_ns.high + 1.2 * 9 * 20 * MS / 100
    assert slower.saving_ns.high == pytest.approx(most, abs=9)
    assert slower.evidence["startup_ns"] == plain.evidence["startup_ns"]


def test_steps_that_were_not_marked_share_the_cost(evaluate):
    (plain,) = evaluate(EPOCHS, **ONE_WORKER)
    (finding,) = evaluate(EPOCHS, **ONE_WORKER, records=[unmarked(300)])
    assert finding.saving_ns.high == plain.saving_ns.high // 4


NONE = Loader(num_workers=0)
PERSISTENT = Loader(num_workers=2, persistent_workers=True)


@pytest.mark.parametrize("loader", [NONE, PERSISTENT], ids=["none", "persistent"])
def test_is_silent_if_no_workers_start_again(evaluate, loader):
    assert evaluate(EPOCHS, flags=EPOCH_FLAGS, loader=loader) == ()


def test_the_first_start_does_not_stand_for_later_ones(evaluate):
    waits = [2_000 * MS, *EPOCHS["data_wait"][1:]]
    (finding,) = evaluate({**WORK, "data_wait": waits}, **ONE_WORKER)
    assert finding.evidence["startup_per_epoch_ns"] == 99_900 * US
    once = every(1_000, 2_000 * MS, 100 * US)
    run = ONE_WORKER | {"flags": every(1_000, StepFlag.EPOCH_START)}
    assert evaluate({**WORK, "data_wait": once}, **run) == ()


def test_a_loader_that_is_made_again_has_no_persistent_workers(evaluate):
    (finding,) = evaluate(EPOCHS, **ONE_WORKER, records=[REMADE])
    (persistent,) = evaluate(EPOCHS, **ONE_WORKER)
    assert (finding.change, span(finding)) == (None, span(persistent))
    assert "return the same one" in finding.advice


def test_abstains_where_no_epoch_begins(evaluate):
    assert evaluate(WORK) == ()


VALIDATED = {
    "phases": {**WORK, "validation": every(10, 60 * MS, first=9)},
    "flags": every(10, StepFlag.VALIDATION, first=9),
    "parts": {
        "validation/loader start": every(10, 25 * MS, first=9),
        "validation/first batch": every(10, 15 * MS, first=9),
        "validation/next batches": every(10, 2 * MS, first=9),
    },
}


def test_workers_of_each_validation_are_a_finding_of_their_own(evaluate):
    loader = Loader(num_workers=2, length=8)
    (finding,) = evaluate(**VALIDATED, validation_loader=loader)
    assert finding.places[0].phase == "validation"
    assert finding.change == (
        "DataLoader(..., num_workers=2, persistent_workers=True)  # validation's"
    )
    # 40 ms each at most; of the first batch two workers' share of 20 ms stays, and one start.
    assert span(finding) == (round(0.8 * 9 * 35 * MS / 100), round(1.2 * 10 * 40 * MS / 100))
    assert finding.evidence["startup_per_validation_ns"] == 40 * MS


def test_the_first_batch_of_an_iterable_may_be_made_as_the_loader_starts(evaluate):
    def least(**loader):
        loader = Loader(num_workers=2, dataset_kind="iterable", **loader)
        (finding,) = evaluate(**VALIDATED, validation_loader=loader)
        return finding.saving_ns.low

    assert least() == least(length=3) == 0
    # Two workers' share of 20 ms in 4 batches stays, of the first wait of 15 ms or of before.
    assert least(length=4) == round(0.8 * 9 * 30 * MS / 100)


@pytest.mark.parametrize("loader", [None, NONE, PERSISTENT], ids=["unknown", "none", "persistent"])
def test_validations_without_workers_of_their_own_start_none(evaluate, loader):
    assert evaluate(**VALIDATED, validation_loader=loader) == ()


def test_frequent_validation_leaves_out_the_start_of_workers(judge):
    once, persistent = (
        judge("frequent-validation", **VALIDATED, validation_loader=loader)
        for loader in (Loader(num_workers=2, length=8), PERSISTENT)
    )
    assert once.evidence == persistent.evidence
    assert once.saving_ns.high == round(persistent.saving_ns.high / 3)


def in_rows(in_memory):
    loader = Loader(num_workers=1, in_memory=in_memory)
    return {"flags": EPOCH_FLAGS, "loader": loader, "columns": {"samples": 4}}


def test_workers_that_send_rows_in_memory_are_not_needed(evaluate, judge):
    run = in_rows(True)
    waits = {**WORK, "data_wait": every(10, 100 * MS, MS)}
    finding = judge("data-wait", waits, **run)
    (start,) = evaluate(waits, **run)
    assert finding.change == start.change == "DataLoader(..., num_workers=0)"
    # A wait of 1 ms but for four rows of 6 us; the starts lie between steady steps.
    assert span(finding) == (round(0.8 * MS) - 24 * US, round(1.2 * MS))
    assert (start.when, start.saving_ns.high) == (When.BETWEEN, round(1.2 * 9 * 99 * MS / 100))


@pytest.mark.parametrize("in_memory", [False, True])
def test_starts_between_epochs_may_take_longer_than_all_steps(evaluate, judge, in_memory):
    began = OutsideSpan("epoch_end", 0, 900 * MS, phase_ns={"data_wait": 900 * MS})
    run = {"phases": {"forward": MS, "data_wait": MS}, "records": [began], **in_rows(in_memory)}
    (start,) = evaluate(**run)
    # 100 ms for each of ten steps of 2 ms, one of which is the first batch's making.
    assert span(start) == (98 * MS * 9 // 100, round(1.2 * 9 * MS))
    if in_memory:
        low, high = span(judge("data-wait", **run))
        assert low < high <= 2 * MS


AMID = {
    "phases": {**WORK, "data_wait": every(5, 60 * MS, 2 * MS)},
    "parts": {"data_wait/worker_startup": every(5, 58 * MS)},
}


def test_workers_that_start_within_an_epoch_are_reported_so(evaluate, judge):
    (finding,) = evaluate(**AMID, loader=Loader(num_workers=1))
    # 58 ms at every fifth step of 23.6 ms on average.
    assert "every 5 steps: 11.6 ms of each step (49%)" in finding.title
    assert finding.change.startswith("DataLoader(..., persistent_workers=True)")
    assert finding.cause_ns.high == 11_600 * US
    assert finding.when is When.IN_STEPS
    # The wait for data is without them.
    wait = judge("data-wait", **AMID, loader=Loader(num_workers=1))
    assert wait.evidence["data_wait_ns"] == 2 * MS


@pytest.mark.parametrize(
    ("length", "change"), [(16, "num_workers=0"), (80, "num_workers=2, persistent_workers=True")]
)
def test_workers_are_not_worth_their_start_for_loaders_with_few_batches(evaluate, length, change):
    loader = Loader(num_workers=2, length=length, loaders=8)
    (finding,) = evaluate(**VALIDATED, validation_loader=loader)
    assert finding.title.startswith("Starting 16 workers costs each validation 40.0 ms (")
    assert finding.change == f"DataLoader(..., {change})  # validation's"
