import pytest

from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.phases import Phase


def line(number, count, doubt=0, function="f", phase="forward"):
    return LineCount(phase, "t.py", number, function, "", None, None, count, doubt=doubt)


def shares(lines, *chosen):
    """Return the interval less what chance adds: of a million samples that is little."""
    many = 10_000
    every = [
        line(given.line, given.count * many, given.doubt * many, given.function) for given in lines
    ]
    host_lines = HostLines(100 * many, tuple(every), {"forward": 100 * many})
    low, high = host_lines.interval([every[number] for number in chosen], Phase.FORWARD)
    return pytest.approx((low, high), abs=0.002)


def test_samples_in_doubt_may_be_of_other_lines_of_the_function():
    lines = [line(3, 50, doubt=10), line(4, 20, doubt=20), line(9, 30, function="g")]
    assert shares(lines, 0) == (0.4, 0.7)
    assert shares(lines, 1) == (0.0, 0.3)
    assert shares(lines, 2) == (0.3, 0.3)


def test_among_all_lines_that_they_may_be_of_there_is_no_doubt():
    lines = [line(3, 50, doubt=10), line(4, 20, doubt=20), line(9, 30, function="g")]
    assert shares(lines, 0, 1) == (0.7, 0.7)
    assert shares([line(3, 50, doubt=10), line(4, 20)], 0) == (0.5, 0.5)


def test_a_line_that_was_never_seen_may_have_a_sample():
    low, high = HostLines(100, (), {"forward": 100}).interval([])
    assert low == 0
    assert high == pytest.approx(0.01 + 2 * (0.01 * 0.99 / 100) ** 0.5)
