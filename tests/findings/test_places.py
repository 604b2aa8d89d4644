import pytest

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Finding, Severity
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.runner import evaluate_rules
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, BusyFunction, FunctionNotes
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note, StepFlag

MS = 1_000_000


def test_what_is_slow_in_validation_is_named_by_its_line(analyze):
    last = [step % 10 == 9 for step in range(100)]
    seen = (
        LineCount("validation", "t.py", 36, "decode", "self.decoder(x)", "torch.call", "model", 16),
        LineCount("validation", "t.py", 50, "validation_step", "self.log(x)", "l.log", "log", 4),
        LineCount("forward", "t.py", 12, "training_step", "self(x)", "torch.call", "model", 60),
    )
    lines = HostLines(90, seen, {"validation": 20, "forward": 70})
    run = analyze(
        {"forward": 10 * MS, "validation": [30 * MS * one for one in last]},
        flags=[int(StepFlag.VALIDATION) * one for one in last],
        records=[Note(step=90, name=NOTE, value=lines)],
    )

    (found,) = evaluate_rules(run, ["frequent-validation"]).found

    assert [(at.file, at.line) for at in found.where if at.file] == [("t.py", 36)]


@pytest.mark.parametrize(("count", "named"), [(4, []), (5, ["t.py"])])
def test_a_line_is_named_by_as_few_samples_as_the_table_of_lines_has_it(analyze, count, named):
    seen = (LineCount("data_wait", "t.py", 41, "drawn", "sample(x)", None, "python", count),)
    lines = HostLines(50, seen, {"data_wait": 9, "forward": 41})
    run = analyze(
        {"forward": 5 * MS, "data_wait": 5 * MS}, records=[Note(step=90, name=NOTE, value=lines)]
    )
    (found,) = evaluate_rules(run, ["data-wait"]).found
    assert [at.file for at in found.where if at.file] == named


LOOP = CallPlace("t.py", 25, "decayed", "state = DECAY * state + drive[:, moment]")


@pytest.mark.parametrize(
    ("finding", "calls_frac", "reads", "line"),
    [
        ("host-bound", 0.6, 0, 25),
        ("small-kernels", 0.6, 0, 25),
        ("host-sync", 0.6, 400, 25),
        ("host-bound", 0.1, 0, 12),
        # The forward pass has few of the reads.
        ("host-sync", 0.6, 2_000, 12),
    ],
)
def test_many_small_calls_are_named_by_the_line_that_calls_most_not_the_one_that_takes_longest(
    analyze, finding, calls_frac, reads, line
):
    seen = (LineCount("forward", "t.py", 12, "forward", "self.net(x)", "torch.call", "model", 60),)
    called = (BusyFunction(calls_frac, 300, LOOP),)
    busy = FunctionNotes(reading=called) if finding == "host-sync" else FunctionNotes(busy=called)
    run = analyze(
        {"forward": 10 * MS},
        records=[
            Note(step=0, name=NOTE, value=HostLines(90, seen, {"forward": 70})),
            Note(step=3, name=FUNCTIONS_NOTE, value=busy),
        ],
    )

    found = finding_of(finding, {"reads_per_step_count": reads} if reads else {})
    named = with_lines(found, run)

    assert [(at.file, at.line) for at in named.where] == [("t.py", line)]


def finding_of(finding_id, evidence):
    return Finding(
        id=finding_id,
        severity=Severity.INFO,
        title="",
        advice="",
        evidence=evidence,
        saving_ns=None,
        confidence=0.5,
    )


@pytest.mark.parametrize(("goes_on", "lines"), [(True, [2, 3, 1]), (False, [1])])
def test_lines_whose_loop_can_be_done_at_once_come_before_one_where_it_cannot(
    analyze, goes_on, lines
):
    calls = [(0.5, 400, goes_on), (0.2, 150, False), (0.1, 130, False)]
    places = [CallPlace("t.py", line, f"f{line}", "y") for line in (1, 2, 3)]
    busy = tuple(
        BusyFunction(frac, count, at, at, count, chain)
        for at, (frac, count, chain) in zip(places, calls, strict=True)
    )
    note = Note(step=3, name=FUNCTIONS_NOTE, value=FunctionNotes(busy=busy))
    named = with_lines(
        finding_of("small-kernels", {}), analyze({"forward": 10 * MS}, records=[note])
    )
    assert [at.line for at in named.where] == lines
