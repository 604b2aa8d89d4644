from rule_cases import MS, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.function_calls import (
    FUNCTIONS_NOTE,
    FunctionNotes,
    RebuiltWeights,
)
from lightning_gpuprof.records.module_calls import REPEATED_NOTE, CallPlace, RepeatedModule
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"forward": 10 * MS, "backward": 20 * MS}
PLACES = (
    CallPlace("train.py", 29, "policy", "return self.actor(self.encoder(x))"),
    CallPlace("train.py", 32, "value", "return self.critic(self.encoder(x))"),
)


def repeated(**changes):
    values = {
        "name": "encoder",
        "calls": 2,
        "repeat_ns": 4 * MS,
        "backward_frac": 1.0,
        "places": PLACES,
    }
    return [Note(step=9, name=REPEATED_NOTE, value=[RepeatedModule(**{**values, **changes})])]


def test_a_module_that_runs_again_is_named_with_its_lines(judge):
    (finding,) = judge("repeated-forward", PHASES, records=repeated())
    assert finding.severity is Severity.CRITICAL
    assert finding.title.startswith(
        "self.encoder runs 2 times a step on the same input (in policy, value)"
    )
    assert [where.line for where in finding.where if where.file] == [29, 32]
    # Two fifths of both passes less a fifth; half of the backward pass, and a fifth more.
    assert span(finding) == (9_600_000, 16_800_000)


def test_a_pass_without_gradients_costs_its_forward_pass(judge):
    (finding,) = judge("repeated-forward", PHASES, records=repeated(backward_frac=0.0))
    assert span(finding) == (3_200_000, 4_800_000)
    assert "backward" not in finding.title


def test_the_model_itself_is_named_as_it_is_called(judge):
    (finding,) = judge("repeated-forward", PHASES, records=repeated(name="", places=()))
    assert finding.title.startswith(
        "self(...) runs 2 times a step on the same input: calling it once"
    )
    assert finding.change.startswith("output = self(...)  # once")


def test_a_first_batch_that_took_longer_claims_no_more_than_all_calls_but_one(judge):
    (finding,) = judge("repeated-forward", PHASES, records=repeated(repeat_ns=80 * MS))
    assert span(finding) == (12 * MS, 18 * MS)


def test_on_a_gpu_the_hosts_clock_gives_no_least_saving(judge):
    gpu = Device(type="cuda")
    (finding,) = judge("repeated-forward", PHASES, records=repeated(), device=gpu)
    assert finding.saving_ns.low == 0


def test_a_run_in_which_nothing_was_repeated_has_nothing_to_report(judge):
    assert judge("repeated-forward", PHASES) == ()


def test_without_a_forward_pass_it_abstains(judge):
    assert isinstance(judge("repeated-forward", {}, steps=0), Abstained)


def test_a_parametrization_is_left_to_rebuilt_weights_where_that_tells_of_its_line(judge):
    name = "layer.parametrizations.weight.0"

    def said(*, again_ns=MS, places=PLACES[:1], name=name):
        rebuilt = RebuiltWeights(2, again_ns, places)
        looked = Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(rebuilt=rebuilt))
        return judge("repeated-forward", PHASES, records=[looked, *repeated(name=name)])

    assert not said()
    for told in (said(again_ns=1), said(places=()), said(name="encoder")):
        assert len(told) == 1
    assert "parametrize.cached()" in said(places=())[0].change
    assert "parametrize.cached()" not in said(name="encoder")[0].change


def test_a_closure_that_is_called_besides_is_all_of_the_step_again(judge):
    closure = CallPlace("train.py", 49, "optimizer_step", "optimizer_closure()")
    notes = repeated(backward_frac=0.0, passes=2, closure=closure)
    (finding,) = judge("repeated-forward", PHASES, records=notes)
    assert "run 2 times for each batch" in finding.title
    assert finding.where[0].line == 49
    # Half of both passes, a fifth more or less.
    assert span(finding) == (12_000_000, 18_000_000)
