from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.rule import rules
from lightning_gpuprof.records.schema import StepFlag

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
        records=[lines],
    )

    (found,) = evaluate_rules(run, [rules()["frequent-validation"]]).found

    assert [(at.file, at.line) for at in found.where if at.file] == [("t.py", 36)]
