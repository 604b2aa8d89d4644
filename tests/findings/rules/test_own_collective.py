import pytest
from rule_cases import MS, exchanging, outcome, span

from lightning_gpuprof.records.lines import HostLines, LineCount


@pytest.fixture
def judge_line(ranks):
    """Judge two ranks; in half of the forward pass, the first is at a line of this source."""

    def judge(source, kind="collective", waits=(MS, MS)):
        line = LineCount("forward", "t.py", 54, "training_step", source, "torch.x", kind, 50)
        sampled = {"records": [HostLines(200, (line,), {"forward": 100})]}
        each = [exchanging(8 * MS, 4 * MS, wait) | sampled for wait in waits]
        return outcome("own-collective", ranks(*each))

    return judge


def test_a_barrier_in_each_step_is_named_at_its_line(judge_line):
    finding = judge_line("torch.distributed.barrier()")
    assert finding.title == "A collective at line 54 takes 4.00 ms of each step (33%)"
    assert [(place.line, place.phase) for place in finding.places] == [(54, "forward")]
    assert span(finding) == (0, 4 * MS)
    assert "pickled" not in finding.advice


def test_an_exchange_of_objects_is_advised_to_send_a_tensor(judge_line):
    assert "pickled" in judge_line("dist.all_gather_object(found, name)").advice


def test_waiting_for_a_late_rank_is_not_saved_by_leaving_out_the_meeting(judge_line):
    # The first rank waits 3 ms longer than the other: 1 ms of the line is its own.
    finding = judge_line("dist.all_reduce(value)", waits=(4 * MS, MS))
    assert finding.evidence["waited_ns"] == 3 * MS
    assert span(finding) == (0, 1_200_000)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("self.net(x)", "collective"),
        ("torch.distributed.barrier()", None),
        ("reduce(add, x)", None),
    ],
)
def test_gathering_weights_and_other_lines_are_not_the_programs_collectives(
    judge_line, source, kind
):
    assert judge_line(source, kind) is None
