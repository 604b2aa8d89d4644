"""The rule on fixed filters that are a product of one along each side."""

import pytest
from msgspec.structs import replace

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, FunctionNotes, WorkOnData
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.records.windows import SeparableWindow

MS = 1_000_000
PLACE = CallPlace("ssim.py", 36, "blur", "return F.conv2d(x, self.window)")
BLUR = SeparableWindow(5, (11, 11), 3, 3, MS, 5 * MS, MS, 400_000, True, (PLACE,))
DATA = WorkOnData(4 * MS, (PLACE,))


@pytest.fixture
def found(judge):
    def judged(rule="separable-filter", **seen):
        notes = [Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(**seen))]
        return judge(rule, {"forward": 4 * MS, "backward": 6 * MS}, records=notes)

    return judged


def test_two_convolutions_save_what_the_trial_showed(found):
    (finding,) = found(windows=(BLUR,))
    assert finding.title == (
        "A fixed filter of 11 x 11 weights is separable: as one window it takes 5.00 ms of each "
        "step forward and back (50.0%), side by side 1.00 ms, as a trial showed"
    )
    # Half of 4 ms less 1.5 ns for each byte between; a fifth more, and a tenth of what stays.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (1_400_000, 4_900_000)
    assert finding.severity is Severity.CRITICAL
    assert finding.where[0].line == 36
    assert finding.change.splitlines()[1:] == [
        "x = F.conv2d(x, column, groups=3)  # column: (3, 1, 11, 1)",
        "x = F.conv2d(x, row, groups=3)  # row: (3, 1, 1, 11)",
    ]


def test_a_side_of_one_weight_needs_no_convolution(found):
    (finding,) = found(windows=(replace(BLUR, size=(1, 7, 7), channels=4, groups=1),))
    assert finding.change.splitlines()[1:] == [
        "x = F.conv3d(x, column, groups=1)  # column: (4, 1, 1, 7, 1)",
        "x = F.conv3d(x, row, groups=4)  # row: (4, 1, 1, 1, 7)",
    ]


def test_where_one_window_is_as_quick_there_is_nothing_to_say(found):
    assert found(windows=(replace(BLUR, split_ns=5 * MS),)) == ()


def test_where_memory_between_may_cost_as_much_there_is_nothing_to_say(found):
    assert found(windows=(replace(BLUR, between_bytes=3_000_000),)) == ()


def test_a_filter_on_the_batch_alone_is_left_to_the_rule_that_makes_it_cheaper(found):
    assert found("work-on-data", windows=(BLUR,), on_data=(DATA,)) == ()
    slow = replace(BLUR, split_ns=5 * MS)
    assert len(found("work-on-data", windows=(slow,), on_data=(DATA,))) == 1
