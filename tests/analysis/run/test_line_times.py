from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import Phase

MS = 1_000_000
PHASES = {"forward": 6 * MS, "validation": 2 * MS, "data_wait": 2 * MS}


def line(phase, number, count, callee=None):
    kind = None if callee is None else "python"
    return LineCount(phase, "train.py", number, "step", f"line {number}", callee, kind, count)


def sampled(*lines, **by_phase):
    return [HostLines(sum(by_phase.values()), lines, by_phase)]


def test_a_line_takes_its_share_of_the_phases_time_of_a_step(analyze):
    lines = line("forward", 3, 50), line("forward", 3, 25, "json.loads"), line("forward", 8, 25)
    first, second = line_times(analyze(PHASES, records=sampled(*lines, forward=100)))
    assert (first.phase, first.line, first.count) == (Phase.FORWARD, 3, 75)
    assert first.mean_ns == 4_500_000
    assert first.low_ns < first.mean_ns < first.high_ns
    assert first.frac == 0.45
    assert first.callee is None  # it ran itself most often
    assert (second.line, second.mean_ns) == (8, 1_500_000)


def test_a_line_counts_for_each_phase_and_the_longest_comes_first(analyze):
    lines = line("validation", 3, 100), line("forward", 3, 60)
    times = line_times(analyze(PHASES, records=sampled(*lines, forward=100, validation=100)))
    assert [(time.phase.value, time.mean_ns) for time in times] == [
        ("forward", 3_600_000),
        ("validation", 2_000_000),
    ]


def test_few_samples_no_samples_and_phases_without_time_say_nothing(analyze):
    few = sampled(line("forward", 3, 4), line("checkpoint", 9, 40), forward=100, checkpoint=50)
    assert line_times(analyze(PHASES, records=few)) == ()
    assert line_times(analyze(PHASES)) == ()
