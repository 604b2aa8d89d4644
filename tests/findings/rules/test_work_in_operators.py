"""Rules about work inside torch that need not be done: again, by brute force, or in the step."""

import pytest
import torch
from rule_cases import MS, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.rules.brute_force_lookup import _BINS, _CHANGES
from lightning_gpuprof.records.function_calls import (
    FUNCTIONS_NOTE,
    Broadcast,
    FunctionNotes,
    RepeatedWork,
    WorkOnData,
)
from lightning_gpuprof.records.lookups import Compared
from lightning_gpuprof.records.module_calls import REPEATED_NOTE, CallPlace, RepeatedModule
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"forward": 4 * MS, "backward": 6 * MS}
PLACE = CallPlace("train.py", 31, "attend", "keys = torch.tanh(read @ self.w)")
CALLER = CallPlace("train.py", 49, "forward", "seen = self.attend(read)")


def noted(**values):
    return Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(**values))


RULES = ("repeated-operators", "brute-force-lookup", "work-on-data")


@pytest.mark.parametrize("rule", RULES)
def test_abstains_where_no_forward_pass_was_looked_at(judge, rule):
    assert isinstance(judge(rule, PHASES), Abstained)


@pytest.mark.parametrize("rule", RULES)
def test_is_silent_where_little_was_seen(judge, rule):
    little = noted(
        repeated=(RepeatedWork(50_000, 0, 9, (PLACE,)),),
        compared=(Compared("any", False, 50_000, 1, 1 << 16, 900, (PLACE,)),),
        on_data=(WorkOnData(1_900_000, (PLACE,)),),
    )
    assert judge(rule, PHASES, records=[little]) == ()


def test_what_is_computed_again_goes_with_its_share_of_both_passes(judge):
    one = RepeatedWork(MS, MS, 12, (PLACE,), (PLACE, CALLER))
    (finding,) = judge("repeated-operators", PHASES, records=[noted(repeated=(one,))])
    assert finding.title == (
        "attend computes the same 12 times a step, from the same values: once would save 1.00 ms "
        "of the forward pass (10.0% of the step), and its backward pass"
    )
    assert [(at.file, at.line) for at in finding.where] == [("train.py", 31)]
    # A quarter of both passes, a fifth less; of the backward pass all turns but one at most.
    assert span(finding) == (2 * MS, round(1.2 * (1 * MS + 11 / 12 * 6 * MS)))
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize("at", [PLACE, CALLER])
def test_a_whole_module_that_runs_again_is_told_by_its_name(judge, at):
    one = RepeatedWork(MS, MS, 2, (PLACE,), (PLACE, CALLER))
    module = RepeatedModule("key", 2, MS, 1.0, (at,))
    records = [noted(repeated=(one,)), Note(step=1, name=REPEATED_NOTE, value=[module])]
    assert judge("repeated-operators", PHASES, records=records) == ()


def test_what_has_a_cheaper_form_is_not_told_as_computed_again_too(judge):
    one = RepeatedWork(MS, 0, 12, (PLACE,), (PLACE, CALLER))
    compared = Compared("any", False, MS, 12, 1 << 20, 900, (PLACE,))
    wide = Broadcast("squares", MS, 12, 1 << 20, 1 << 10, 8, False, (PLACE,))
    for cheaper in (dict(compared=(compared,)), dict(broadcast=(wide,))):
        assert (
            judge("repeated-operators", PHASES, records=[noted(repeated=(one,), **cheaper)]) == ()
        )


def lookup(judge, kind="any", orders=False, **options):
    one = Compared(kind, orders, 2 * MS, 1, 384 * 8_000, 8_000, (PLACE,))
    return judge("brute-force-lookup", PHASES, records=[noted(compared=(one,))], **options)


def test_a_comparison_with_all_says_how_many_and_to_look_up_instead(judge):
    (finding,) = lookup(judge)
    assert finding.title == (
        "384 values are each compared with all 8,000 of a tensor to learn whether it is there: "
        "2.00 ms of the forward pass (20.0% of the step)"
    )
    assert "torch.isin(a, b)" in finding.change
    assert finding.saving_ns.low < 1.4 * MS < finding.saving_ns.high == 4_400_000


def test_edges_of_bins_are_looked_up_by_size(judge):
    (finding,) = lookup(judge, "count", orders=True)
    assert finding.change == _BINS
    assert "to learn how many are smaller or larger" in finding.title


def test_on_a_gpu_launches_were_timed_and_nothing_is_promised(judge):
    (finding,) = lookup(judge, device=Device(type="cuda"))
    assert span(finding) == (0, 0)
    assert finding.severity is Severity.INFO


def made(change, name):
    torch.manual_seed(0)
    names = {"torch": torch, "a": torch.randint(50, (64,)), "b": torch.randint(50, (40,))}
    exec(change, names)  # what a user would paste
    return names["a"], names["b"], names[name]


def test_the_changes_that_are_pasted_give_the_same():
    for change in (_CHANGES["any"], _CHANGES["any"].split("\n")[0]):
        a, b, found = made(change, "found")
        assert torch.equal(found, (a[:, None] == b).any(1))
    a, b, at = made(_CHANGES["which"], "at")
    there = (a[:, None] == b).any(1)
    assert torch.equal(at[there], (a[:, None] == b).int().argmax(1)[there])
    assert torch.equal(made(_CHANGES["which"], "found")[2], there)
    a, b, count = made(_CHANGES["count"], "count")
    assert torch.equal(count, (a[:, None] == b).sum(1))
    a, b, count = made("b = b.sort().values\n" + _BINS, "count")
    assert torch.equal(count, (a[:, None] > b).sum(1))


def test_work_on_the_batch_alone_is_sent_to_the_dataset_without_a_sure_saving(judge):
    one = WorkOnData(3 * MS, (PLACE,))
    (finding,) = judge("work-on-data", PHASES, records=[noted(on_data=(one,))])
    assert finding.title == (
        "3.00 ms of each step (30.0%) goes to torch functions of the batch alone in attend: no "
        "weight takes part"
    )
    assert span(finding) == (0, 3_600_000)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(("places", "most"), [(1, []), (3, [2_792])])
def test_small_functions_that_are_slower_while_watched_take_what_samples_saw(judge, places, most):
    at = tuple(CallPlace(PLACE.file, 31 + n, "attend", "") for n in range(places))
    lines = tuple(
        LineCount("forward", "train.py", line, "attend", "", None, None, 30) for line in (31, 90)
    )
    sampled = Note(step=9, name=NOTE, value=HostLines(200, lines, {"forward": 100}))
    note = noted(on_data=(WorkOnData(9 * MS, at),))
    found = judge("work-on-data", PHASES, records=[note, sampled])
    # 30 % or, in all lines of the function, 60 % of 4 ms, and two standard errors: a fifth of the
    # step is told.
    assert [round(one.evidence["data_ns"] / 1_000) for one in found] == most
    # Too few samples say nothing.
    few = Note(step=9, name=NOTE, value=HostLines(200, lines, {"forward": 29}))
    (finding,) = judge("work-on-data", PHASES, records=[note, few])
    assert finding.evidence["data_ns"] == 9 * MS


def test_work_on_the_batch_that_a_device_does_is_not_judged_by_its_launches(judge):
    gpu = Device(type="cuda")
    note = noted(on_data=(WorkOnData(3 * MS, (PLACE,)),))
    assert isinstance(judge("work-on-data", PHASES, records=[note], device=gpu), Abstained)
    assert judge("work-on-data", PHASES, records=[noted()], device=gpu) == ()


def test_work_on_the_batch_that_has_a_cheaper_form_is_told_as_that(judge):
    one = WorkOnData(3 * MS, (PLACE,))
    known = Compared("any", False, 3 * MS, 1, 1 << 20, 900, (PLACE,))
    note = noted(on_data=(one,), compared=(known,))
    assert judge("work-on-data", PHASES, records=[note]) == ()
