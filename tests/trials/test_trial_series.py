"""What is tried, for how long, and what follows: by programs and a clock that are arithmetic."""

import itertools

import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.records.schema import Loader, StepFlag
from lightning_gpuprof.trials.change import changes
from lightning_gpuprof.trials.pairs import (
    MAX_PAIRS,
    MIN_PAIRS,
    Pairs,
    TrainedBlock,
    gain_of,
)
from lightning_gpuprof.trials.processes import ChildFailed
from lightning_gpuprof.trials.proposals import Candidate, WatchedRun
from lightning_gpuprof.trials.trial_series import TrialSeries, take_turns
from lightning_gpuprof.trials.try_changes import lengths

MS = 1_000_000
STEPS = 10


class FakeVariant:
    """Takes `ms` per step, each block a little more or less by what `noise` gives."""

    def __init__(self, ms, noise=None, *, losses=(1.0, 2.0), fails="", tell=None, first_ms=None):
        self.ms, self.noise, self.fails = ms, noise or itertools.repeat(0.0), fails
        self.tell, self.alone, self.closed = tell, False, 0
        losses = losses() if callable(losses) else losses
        self.first = TrainedBlock(
            MS, 1, first_step_ns=round((first_ms or 5 * ms) * MS), losses=losses
        )

    def train_block(self):
        if self.fails:
            raise ChildFailed(self.fails)
        if self.tell:
            self.tell(self)
        ns = round((self.ms + next(self.noise)) * STEPS * MS)
        return TrainedBlock(ns, STEPS, 8 * STEPS, memory_bytes=100)

    def close(self):
        self.closed += 1


def turns(before, after, pairs=100):
    left = iter(range(pairs))
    may_go_on = lambda count: next(left, None) is not None  # noqa: E731 - shorter than a function
    return take_turns(before, after, may_go_on=may_go_on, on_pair=lambda pairs: None)


def noise(*values):
    return itertools.cycle(values)


def test_forms_take_turns_and_change_who_begins():
    order = []
    before, after = FakeVariant(2, tell=order.append), FakeVariant(1, tell=order.append)
    turns(before, after)
    assert order[:8] == [before, after, after, before, before, after, after, before]


@pytest.mark.parametrize(
    ("before", "after", "verdict", "pairs"),
    [
        (FakeVariant(10), FakeVariant(8), "faster", MIN_PAIRS),
        (FakeVariant(10), FakeVariant(12), "slower", MIN_PAIRS),
        (FakeVariant(10), FakeVariant(10.02), "same", MIN_PAIRS),
        (
            FakeVariant(10, noise(-4, 4, 0)),
            FakeVariant(10, noise(4, 0, -4)),
            "undecided",
            MAX_PAIRS,
        ),
        # 1 % faster on a machine that varies by a tenth: not sure at once
        (FakeVariant(10, noise(1, -1)), FakeVariant(9.5, noise(1, -1)), "faster", MIN_PAIRS),
    ],
)
def test_turns_end_as_soon_as_it_is_clear(before, after, verdict, pairs):
    done = turns(before, after)
    assert (done.gain.verdict, len(done.after)) == (verdict, pairs)


def test_turns_end_with_the_time_though_it_is_not_clear():
    done = turns(FakeVariant(10, noise(-4, 4)), FakeVariant(10, noise(4, 0, -4)), pairs=5)
    assert (len(done.after), done.gain.verdict) == (7, "undecided")


def test_an_interval_is_students():
    gain = gain_of([10, 10, 10, 10], [4, 6, 4, 6])
    error = (4 / 12) ** 0.5 / 10
    assert gain.middle == 0.5
    assert gain.high - gain.middle == pytest.approx(3.18 * error)
    assert gain_of([1], [1]) is None


def test_larger_batches_are_compared_by_the_sample():
    blocks = (
        [TrainedBlock(100 * MS, 10, samples=80)] * 2,
        [TrainedBlock(150 * MS, 10, samples=160)] * 2,
    )
    assert Pairs(*map(list, blocks)).gain.middle == 0.25


@pytest.fixture
def context(analyze):
    run = analyze(
        {"data_wait": 5 * MS, "forward": 4 * MS, "optimizer_step": MS},
        loader=Loader(num_workers=0, batch_size=8, length=200),
        model={"optimizers": [{"class": "Adam", "package": "torch"}]},
        torch_threads=1,
        cpu_count=2,
    )
    return WatchedRun(run, evaluate_rules(run).findings)


@pytest.fixture
def trying(context):
    """Try changes of a program whose step the changes make shorter by so many of 10 ms."""

    def run(
        saves, *, block_s=1.0, start_s=0.0, seconds=1000.0, base=None, uneven_from=100, **forms
    ):
        now, made, started = [0.0], [], []

        def pass_time(form):
            now[0] += block_s
            if form not in started:
                started.append(form)
                now[0] += start_s

        def form(candidates):
            names = [pick.change.name for pick in candidates]
            known = {"tell": pass_time, **(forms.get(names[0], {}) if len(names) == 1 else {})}
            known = known if candidates else {"tell": pass_time, **(base or {})}
            if len(made) >= uneven_from:
                known["noise"] = noise(-8, 8)
            one = FakeVariant(
                10 - sum(saves.get((p.change.name, p.value), 0) for p in candidates), **known
            )
            made.append(one)
            return one

        candidates = [Candidate(changes()[name], value) for name, value in saves]
        trying = TrialSeries(context, candidates, form, seconds, clock=lambda: now[0])
        found = trying.run("train.py")
        assert all(one.closed for one in made)
        return found

    return run


def verdicts(found):
    return {trial.name: trial.verdict for trial in found.trials}


def test_winners_are_combined_and_measured_together(trying):
    saves = {("num_workers", 2): 4, ("optimizer", "fused"): 1, ("torch_threads", 2): -2}
    found = trying(saves)
    assert verdicts(found) == {
        "num_workers=2": "faster",
        "optimizer=fused": "faster",
        "torch_threads=2": "slower",
    }
    assert found.combination.gain_frac == pytest.approx(0.5)
    assert found.paste == (
        "DataLoader(..., num_workers=2, persistent_workers=True)\noptimizer(..., fused=True)"
    )
    assert found.settings.data_loader == {"num_workers": 2, "persistent_workers": True}
    first = found.trials[0]
    assert (first.before.step_ns, first.after.step_ns) == (10 * MS, 6 * MS)
    assert (first.before.samples_per_s, first.after.memory_bytes) == (800, 100)
    assert first.losses == "bit-equal"
    assert first.predicted_ns is not None


def test_of_several_values_the_best_counts_and_hopeless_ones_are_left_out(trying):
    ladder = {("num_workers", 2): 5, ("num_workers", 4): 4, ("num_workers", 8): 3}
    found = trying(ladder)
    assert verdicts(found)["num_workers=8"] == "not run"
    assert found.trials[2].note == "num_workers=4 was behind another value already"
    assert "num_workers=2" in found.paste


def test_what_alters_results_is_no_winner(trying):
    changed = {"losses": (1.0, 3.0)}
    saves = {("precision", "bf16-mixed"): 5, ("optimizer", "fused"): 4, ("num_workers", 2): 3}
    found = trying(saves, optimizer=changed, num_workers=changed)
    by_name = {trial.change: trial for trial in found.trials}
    assert by_name["optimizer"].alters == "the losses of the first steps differ"
    assert by_name["num_workers"].losses == "changed"  # the data set may draw others: it may win
    assert found.paste == "DataLoader(..., num_workers=2, persistent_workers=True)"


def test_losses_within_the_tolerance_are_said_to_be(trying):
    near = {"losses": (1.0, 2.001)}
    found = trying({("optimizer", "fused"): 4}, optimizer=near)
    assert found.trials[0].losses == "within tolerance"
    assert found.paste


def test_losses_that_are_not_finite_are_alike(trying):
    nothing = {"losses": (1.0, None)}
    found = trying({("optimizer", "fused"): 4}, base=nothing, optimizer=nothing)
    assert found.trials[0].losses == "bit-equal"
    found = trying({("optimizer", "fused"): 4}, base=nothing, optimizer={"losses": (1.0, 2.0)})
    assert found.trials[0].losses == "changed"


def test_losses_that_differ_from_run_to_run_are_not_compared(trying):
    restless = map(float, itertools.count())
    found = trying({("optimizer", "fused"): 4}, base={"losses": lambda: (next(restless),)})
    assert found.trials[0].losses == "not compared"
    assert found.paste


def test_the_ceiling_is_no_winner_and_spares_what_could_not_gain(trying):
    found = trying({("cached_batches", 16): 0.02, ("num_workers", 1): 4})
    assert verdicts(found) == {"cached_batches=16": "same", "num_workers=1": "not run"}
    assert found.trials[1].note == "without any wait for data a step would save 0.2% at most"
    assert found.combination is None
    found = trying({("cached_batches", 16): 5, ("num_workers", 1): 4})
    assert found.paste == "DataLoader(..., num_workers=1, persistent_workers=True)"


def test_a_dear_first_step_is_made_good_at_a_step(trying):
    saves = {("compile", True): 5}
    assert trying(saves).trials[0].break_even_step is None
    found = trying(saves, compile={"first_ms": 1_050})
    assert found.trials[0].break_even_step == 200  # (1,050 - 50) / (10 - 5)


def test_a_failing_change_is_said_and_its_other_values_are_left_out(trying):
    saves = {("batch_size", 16): 1, ("batch_size", 32): 2, ("optimizer", "fused"): 1}
    found = trying(saves, batch_size={"fails": "CUDA out of memory"})
    first, second, third = found.trials
    assert (first.verdict, first.note) == ("failed", "CUDA out of memory")
    assert second.note == "batch_size=16 failed"
    assert third.verdict == "faster"


def test_without_time_nothing_more_is_tried(trying):
    saves = {("num_workers", 2): 4, ("optimizer", "fused"): 1}
    found = trying(saves, block_s=60, seconds=200)
    assert verdicts(found) == {"num_workers=2": "faster", "optimizer=fused": "no time"}


def test_a_slow_start_takes_nothing_from_the_time_to_measure(trying):
    """The first block of a variant takes ten times as long as later ones."""
    uncertain = {"noise": noise(-3, 3, -2, 2)}
    quick = trying({("optimizer", "fused"): 0.5}, seconds=300, optimizer=uncertain)
    slow = trying({("optimizer", "fused"): 0.5}, seconds=300, start_s=60, optimizer=uncertain)
    assert slow.trials[0].pairs >= quick.trials[0].pairs // 2 > MIN_PAIRS


def test_a_single_winner_stays_where_its_check_ran_out_of_time(trying):
    """It was faster in the first processes; in new ones the machine is too uneven to decide."""
    found = trying({("optimizer", "fused"): 1}, uneven_from=2)
    assert verdicts(found) == {"optimizer=fused": "faster"}
    assert found.combination.verdict == "undecided"
    assert found.combination.note == (
        "it was faster by itself; its check in new processes ran out of time"
    )
    assert found.paste == "optimizer(..., fused=True)"


def test_an_uneven_machine_is_told(trying):
    swings = {"noise": noise(0, 0, 0, 6)}
    found = trying({("optimizer", "fused"): 4}, base=swings)
    assert any("busy or throttled" in note for note in found.notes)
    assert not any("busy" in note for note in trying({("optimizer", "fused"): 4}).notes)


def test_proposals_come_by_what_they_are_expected_to_save(context):
    candidates, others = context.propose()
    names = [pick.change.name for pick in candidates]
    assert names[:2] == ["cached_batches", "num_workers"]
    reasons = {trial.change: trial.note for trial in others}
    assert reasons["pin_memory"] == "there is no GPU to copy batches to"
    assert reasons["deferred_logging"] == "it could save 0% of a step at most"
    assert reasons["batch_size"].startswith("it alters results, and no finding proposes it")


def test_one_may_ask_for_changes_or_for_a_finding(context):
    candidates, others = context.propose([("num_workers", 3), ("optimizer", None)])
    assert {(p.change.name, p.value) for p in candidates} == {
        ("num_workers", 3),
        ("optimizer", "fused"),
        ("optimizer", "foreach"),
    }
    assert not others
    assert {p.change.name for p in context.propose(finding="data-wait")[0]} == {"num_workers"}
    with pytest.raises(ConfigError, match="No change is called 'magic'"):
        context.propose([("magic", None)])
    with pytest.raises(ConfigError, match="No change answers 'magic'"):
        context.propose(finding="magic")


def test_the_interval_of_validation_is_computed_by_its_finding(analyze):
    often = [0] * 100
    often[9::10] = [StepFlag.VALIDATION] * 10
    phases = {"forward": [7 * MS] * 100, "validation": [30 * MS if f else 0 for f in often]}
    run = analyze(phases, flags=often)
    context = WatchedRun(run, evaluate_rules(run).findings)
    [trial] = context.propose(finding="frequent-validation")[1]
    assert (trial.computed, trial.paste) == (True, context.findings[0].change)
    assert trial.gain_frac == context.findings[0].saving_ns.middle / (10 * MS)


@pytest.mark.parametrize(
    ("step_ms", "epoch", "expected"),
    [(10, 200, (20, 200)), (10, 1000, (20, 40)), (2_000, None, (5, 4)), (0.1, 60, (20, 420))],
)
def test_blocks_are_whole_epochs_where_these_are_short(analyze, step_ms, epoch, expected):
    run = analyze({"forward": MS}, loader=Loader(length=epoch))
    assert lengths(run, round(step_ms * MS)) == expected
