import numpy as np
import pytest

from lightning_gpuprof.analysis.compare.bootstrap import change_of_fit
from lightning_gpuprof.analysis.compare.compare import (
    OTHER_CACHE,
    OTHER_LENGTH,
    Verdict,
    compare,
)
from lightning_gpuprof.analysis.compare.same import check_values
from lightning_gpuprof.analysis.run.step_kinds import PLAIN
from lightning_gpuprof.analysis.run.whole_fit import Kind, WholeFit
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import (
    UNTIMED_STEPS,
    Device,
    OutsideSpan,
    Scalars,
    StepFlag,
)

MS = 1_000_000


def noisy(mean_ms, *, spread=0.1, steps=100, seed=0):
    random = np.random.default_rng(seed)
    steps_ns = mean_ms * MS * (1 + spread * random.standard_normal(steps))
    return steps_ns.astype(np.int64).clip(min=1)


def both(analyze, base, new, tolerance=0.01):
    return compare(analyze(**base), analyze(**new), tolerance=tolerance)


def change_of_mean(base, new):
    fits = (WholeFit((Kind(PLAIN, steps, 1.0),), {}) for steps in (base, new))
    return change_of_fit(*fits)


def behind(device_ms):
    """A device that falls behind by a millisecond less per step than the step takes."""
    columns = {
        "device_dur": device_ms * MS,
        "device/forward": device_ms * MS,
        "run_ahead/forward": (device_ms - 1) * MS * np.arange(1, 101),
    }
    return {"columns": columns, "device": Device(type="cuda", name="a GPU"), "samples": 32}


class TestInterval:
    def test_covers_the_true_change_and_narrows_with_more_steps(self):
        few = change_of_mean(noisy(10), noisy(8, seed=1))
        many = change_of_mean(noisy(10, steps=5_000), noisy(8, steps=5_000, seed=1))
        assert few.low < -0.2 < few.high
        assert many.high - many.low < (few.high - few.low) / 3

    def test_holds_the_truth_in_about_95_of_100_pairs_of_equal_runs(self):
        pairs = [change_of_mean(noisy(10, seed=i), noisy(10, seed=i + 500)) for i in range(100)]
        assert 88 <= sum(pair.low <= 0 <= pair.high for pair in pairs) <= 100


class TestVerdict:
    def test_a_faster_run(self, analyze):
        base = {"phases": {"forward": noisy(10), "data_wait": noisy(5)}}
        result = both(analyze, base, {"phases": {"forward": noisy(10, seed=2)}})
        assert result.verdict is Verdict.FASTER
        assert result.change.middle == pytest.approx(-1 / 3, abs=0.02)
        waits = next(change for change in result.phases if change.name == "data_wait")
        assert waits.new == 0

    def test_no_difference(self, analyze):
        base, new = ({"phases": {"forward": noisy(10, spread=0.5, seed=s)}} for s in (0, 9))
        result = both(analyze, base, new)
        assert result.verdict is Verdict.NO_DIFFERENCE

    def test_other_batch_sizes_are_compared_per_sample(self, analyze):
        base = {"phases": {"forward": noisy(10)}, "samples": 32}
        new = {"phases": {"forward": noisy(15, seed=3)}, "samples": 64}
        result = both(analyze, base, new)
        assert result.per_sample
        assert result.verdict is Verdict.FASTER
        assert result.change.middle == pytest.approx(-0.25, abs=0.03)
        assert result.steps.mean_ns.base == pytest.approx(10 * MS / 32, rel=0.05)

    def test_a_host_that_is_ahead_of_its_device_is_no_measure(self, analyze):
        base, new = (
            analyze({"forward": noisy(1, spread=0.3, seed=ms)}, **behind(ms)) for ms in (8, 6)
        )
        result = compare(base, new, tolerance=0.01)
        assert result.by_device == (True, True)
        assert result.verdict is Verdict.FASTER
        assert result.change.middle == pytest.approx(-0.25, abs=0.01)
        assert result.change.high - result.change.low < 0.02
        assert result.steps.mean_ns.base == pytest.approx(8 * MS, rel=0.01)
        assert result.steps.p50_ns.new == 6 * MS
        assert result.steps.samples_per_s.new == pytest.approx(32_000 / 6, rel=0.01)
        assert base.samples_per_s == pytest.approx(4_000, rel=0.01)

    def test_a_short_last_batch_among_the_steps_is_no_other_batch_size(self, analyze):
        short = np.where(np.arange(100) % 80 == 79, 8, 64)
        base = {"phases": {"forward": noisy(10)}, "samples": short}
        new = {"phases": {"forward": noisy(5)}, "samples": 64}
        assert not both(analyze, base, new).per_sample

    def test_the_change_is_of_all_steps_also_where_few_were_marked(self, analyze):
        rest = OutsideSpan(UNTIMED_STEPS, 0, 900 * 6 * MS, phase_ns={}, steps=900)
        base, new = {"phases": {"forward": noisy(10)}}, {"phases": {"forward": noisy(5, seed=1)}}
        result = both(analyze, base, {**new, "records": [rest]})
        mean = result.steps.mean_ns
        assert mean.new == pytest.approx(5.9 * MS, rel=0.01)
        assert result.change.middle == pytest.approx(mean.diff / mean.base, abs=1e-3)
        assert result.change.low < result.change.middle < result.change.high

    def test_too_few_steps_are_no_verdict(self, analyze):
        short = {"phases": {"forward": 10 * MS}, "steps": 5}
        assert both(analyze, short, short).verdict is Verdict.UNKNOWN


def test_machines_versions_and_settings_that_differ_are_listed(analyze):
    base = {"phases": {"forward": MS}, "host": "a", "versions": {"torch": "2.12"}}
    new = {"phases": {"forward": MS}, "host": "b", "versions": {"torch": "2.13"}}
    base["torch_settings"] = {"cudnn_benchmark": False, "cudnn_deterministic": False}
    new["torch_settings"] = {"cudnn_benchmark": True}
    differs = [(fact.kind, fact.name) for fact in both(analyze, base, new).differs]
    assert differs == [("machine", "host"), ("versions", "torch"), ("settings", "cudnn_benchmark")]


def test_a_model_is_another_by_its_class_or_by_its_parameters_where_ranks_count_alike(analyze):
    def differing(**new):
        base = {"model": {"class": "Net", "parameters": 100}, "trainer": {"strategy": "DDP"}}
        runs = ({"phases": {"forward": MS}, **start} for start in (base, base | new))
        return [fact.name for fact in both(analyze, *runs).other_model]

    assert differing() == differing(model={}) == []
    assert differing(model={"class": "Gan", "parameters": 100}) == ["class"]
    fewer = {"class": "Net", "parameters": 50}
    assert differing(model=fewer) == ["parameters"]
    assert differing(model=fewer, trainer={"strategy": "FSDP"}) == []  # a rank holds a part
    assert differing(model=fewer, world_size=2) == []


def test_operators_are_compared_where_both_runs_have_a_trace(analyze):
    def traced(self_ns):
        row = {"name": "aten::mm", "count": 2, "total_ns": self_ns, "self_ns": self_ns}
        return {"phases": {"forward": MS}, "trace": {"operators": [row]}}

    (change,) = both(analyze, traced(4 * MS), traced(2 * MS)).operators
    assert (change.name, change.base, change.new) == ("aten::mm", 2 * MS, MS)
    assert both(analyze, traced(4 * MS), {"phases": {"forward": MS}}).operators == ()


class TestValues:
    def test_the_first_step_beyond_the_tolerance_is_named(self):
        base = Scalars(steps=[0, 1, 2], values={"loss": [2.0, 1.0, 0.5]})
        new = Scalars(steps=[0, 1, 2], values={"loss": [2.01, 1.2, 0.5]})
        (check,) = check_values([base], [new], tolerance=0.01)
        assert (check.count, check.first_step, check.same) == (3, 1, False)
        assert check.max_diff == pytest.approx(0.2)

    def test_a_number_against_none_differs_and_none_against_none_does_not(self):
        number = Scalars(steps=[0, 1], values={"loss": [1.0, None]})
        nan = Scalars(steps=[0, 1], values={"loss": [None, None]})
        assert check_values([number], [number], tolerance=0.01)[0].same
        assert not check_values([number], [nan], tolerance=0.01)[0].same

    def test_nan_is_distinguished_from_a_step_that_logged_nothing(self):
        base = Scalars(
            steps=[0, 1, 2], values={"loss": [1.0, None, None]}, not_finite={"loss": [1]}
        )
        logged_later = Scalars(
            steps=[0, 1, 2], values={"loss": [1.0, None, 5.0]}, not_finite={"loss": [1]}
        )
        finite = Scalars(steps=[0, 1, 2], values={"loss": [1.0, 1.0, None]}, not_finite={})
        (check,) = check_values([base], [logged_later], tolerance=0.01)
        assert (check.count, check.same, check.last_base) == (2, True, None)
        (check,) = check_values([base], [finite], tolerance=0.01)
        assert (check.count, check.first_step) == (2, 1)


class TestWholeFit:
    EPOCHS = (np.arange(200) % 50 == 0) * int(StepFlag.EPOCH_START)

    def run(self, epoch_ms, *, first_ms=10, seed=0, own_ms=0):
        """Four epochs of 50 steps of about 10 ms, with `epoch_ms` before all but the first."""
        before = OutsideSpan(
            "epoch_start",
            0,
            (epoch_ms + own_ms) * MS,
            phase_ns={"data_wait": epoch_ms * MS, "callbacks": own_ms * MS},
            part_ns={"callbacks/ProfilerSchedule": own_ms * MS},
        )
        forward = noisy(10, steps=200, seed=seed)
        forward[self.EPOCHS > 0] = first_ms * MS
        phases = {"forward": forward}
        return {"phases": phases, "steps": 200, "flags": self.EPOCHS, "records": [before] * 3}

    def test_what_lies_between_epochs_makes_a_run_slower(self, analyze):
        # What our own parts take there is not the program's.
        result = both(analyze, self.run(10, own_ms=3_000), self.run(2_000, seed=1))
        # 30 ms less of 2 s at each of three starts, in 200 steps.
        assert result.verdict is Verdict.SLOWER
        assert result.fit_change.middle == pytest.approx(3 * 1_990 / 200 / 10.15, abs=0.05)
        assert result.step_verdict is Verdict.NO_DIFFERENCE
        (waits,) = result.between
        assert (waits.name, waits.base, waits.new) == ("data_wait", 150_000, 30 * MS)
        fit = result.steps.whole_fit_ns
        assert fit.new - fit.base == pytest.approx(29.85 * MS, abs=0.3 * MS)

    def test_so_do_the_first_steps_of_epochs_however_few(self, analyze):
        result = both(analyze, self.run(0), self.run(0, first_ms=900, seed=1))
        assert result.verdict is Verdict.SLOWER
        assert result.fit_change.low > 0.8 * result.fit_change.middle > 0

    def test_a_device_that_is_behind_is_waited_for_between_epochs_only_once(self, analyze):
        def ended(between_ms):
            end = OutsideSpan("epoch_end", 0, between_ms * MS, phase_ns={"other": between_ms * MS})
            return {"phases": {"forward": MS}, "records": [end], **behind(8)}

        # 700 ms are what the device still had to do; the rest comes on top of 800 ms of steps.
        same = both(analyze, ended(700), ended(700))
        assert same.fit_change.middle == 0
        more = both(analyze, ended(700), ended(1_100))
        assert more.verdict is Verdict.SLOWER
        assert more.fit_change.middle == pytest.approx(0.5, abs=0.02)


class TestCompiling:
    """Runs whose first steps compile for so many seconds."""

    def run(self, seconds, *, steps=100, seed=0, **graphs):
        flags = [StepFlag.WARMUP | StepFlag.COMPILED] * len(seconds)
        took = [CompileTime(at, s * 1_000 * MS, **graphs) for at, s in enumerate(seconds)]
        forward = noisy(10, seed=seed, steps=steps)
        forward[: len(seconds)] += np.array(seconds) * 1_000 * MS
        flags += [0] * (steps - len(seconds))
        return {"phases": {"forward": forward}, "flags": flags, "records": took, "steps": steps}

    def test_decides_the_verdict(self, analyze):
        result = both(analyze, self.run([4, 3, 3, 3]), self.run([4], seed=2))
        assert result.verdict is Verdict.FASTER
        assert result.step_verdict is Verdict.NO_DIFFERENCE
        assert result.fit_change.middle == pytest.approx(-9 / 14, abs=0.03)
        assert (result.steps.compiling_ns.base, result.steps.compiling_ns.new) == (
            13_000 * MS,
            4_000 * MS,
        )

    def test_takes_a_tenth_more_or_less_by_chance(self, analyze):
        result = both(analyze, self.run([10]), self.run([11], seed=2))
        assert result.verdict is Verdict.NO_DIFFERENCE

    @pytest.mark.parametrize(
        ("new", "reason"),
        [
            ({"seconds": [1], "loaded": 2}, OTHER_CACHE),
            ({"seconds": [10], "steps": 1_000, "built": 2}, OTHER_LENGTH),
        ],
    )
    def test_is_left_out_where_it_says_nothing_of_a_change(self, analyze, new, reason):
        result = both(analyze, self.run([10], built=2), self.run(**new, seed=2))
        assert result.compiling_left_out == reason
        assert result.verdict is Verdict.NO_DIFFERENCE

    def test_is_not_mentioned_where_there_is_next_to_none(self, analyze):
        runs = ({"phases": {"forward": noisy(10, seed=seed)}} for seed in (0, 9))
        result = both(analyze, *runs)
        assert result.compiling_left_out is None
        assert result.steps.compiling_ns.base is None


class TestPartsAndLines:
    def test_named_parts_are_compared_the_largest_change_first(self, analyze):
        base = {"phases": {"callbacks": 9 * MS}, "parts": {"callbacks/A": 5 * MS}}
        new = {
            "phases": {"callbacks": 9 * MS},
            "parts": {"callbacks/A": 4 * MS, "callbacks/B": 3 * MS},
        }
        parts = both(analyze, base, new).parts
        assert [(part.part, part.base, part.new) for part in parts] == [
            ("B", 0, 3 * MS),
            ("A", 5 * MS, 4 * MS),
        ]

    def test_lines_are_compared_by_their_text_wherever_they_have_moved(self, analyze):
        base = {"phases": {"forward": 10 * MS}, "records": [sampled(line(7, 50))]}
        new = {"phases": {"forward": 10 * MS}, "records": [sampled(line(9, 150))]}
        (change,) = both(analyze, base, new).lines
        assert (change.base, change.new, change.line.line) == (2.5 * MS, 7.5 * MS, 9)
        assert change.sure

    def test_a_difference_that_so_few_samples_may_have_by_chance_is_not_sure(self, analyze):
        base = {"phases": {"forward": 10 * MS}, "records": [sampled(line(7, 90))]}
        new = {"phases": {"forward": 10 * MS}, "records": [sampled(line(7, 100))]}
        (change,) = both(analyze, base, new).lines
        assert not change.sure

    def test_a_line_that_one_run_lacks_was_not_measured_there(self, analyze):
        base = {"phases": {"forward": 10 * MS}, "records": [sampled(line(7, 100, "a()"))]}
        lines = line(7, 100, "a()"), line(8, 90, "b()")
        new = {"phases": {"forward": 10 * MS}, "records": [sampled(*lines)]}
        (change, _) = both(analyze, base, new).lines
        assert (change.line.source, change.base, change.new) == ("b()", None, 4.5 * MS)
        assert change.sure

    def test_without_samples_in_both_runs_no_line_is_compared(self, analyze):
        base = {"phases": {"forward": 10 * MS}, "records": [sampled(line(7, 100))]}
        assert both(analyze, base, {"phases": {"forward": 10 * MS}}).lines == ()
        assert both(analyze, {"phases": {"forward": 10 * MS}}, base).lines == ()


def line(number, count, source="y = f(x)"):
    return LineCount("forward", "t.py", number, "step", source, None, None, count)


def sampled(*lines):
    return HostLines(200, lines, {"forward": 200})
