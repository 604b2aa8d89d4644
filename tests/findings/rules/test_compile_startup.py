import pytest
from rule_cases import MS, WORK, span

from lightning_gpuprof.findings.model import Severity, When
from lightning_gpuprof.records.schema import Note, StepFlag

SECOND = 1_000 * MS


def compiled(*seconds, wall_s, **options):
    flags = [StepFlag.WARMUP | StepFlag.COMPILED] * len(seconds) + [0] * (100 - len(seconds))
    took = [Note(step=at, name="compile_ns", value=one * SECOND) for at, one in enumerate(seconds)]
    return {"flags": flags, "records": took, "wall_ns": wall_s * SECOND, **options}


def test_a_first_compilation_that_is_most_of_a_run_is_told_once_for_the_run(judge):
    finding = judge("compile-startup", WORK, **compiled(20, 10, wall_s=50))
    assert finding.title.startswith("torch.compile took 30.0 s of the run's 50.0 s (60.0%), once")
    assert finding.severity is Severity.WARNING
    assert finding.when is When.BETWEEN
    assert span(finding) == (0, 300 * MS)  # spread over 100 steps
    assert "TORCHINDUCTOR_CACHE_DIR" in finding.change


def test_a_fifth_of_a_run_is_for_information(judge):
    finding = judge("compile-startup", WORK, **compiled(30, wall_s=120))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(("seconds", "wall_s"), [(30, 200), (9, 12)])
def test_of_a_long_run_or_a_short_wait_nothing_is_told(judge, seconds, wall_s):
    assert judge("compile-startup", WORK, **compiled(seconds, wall_s=wall_s)) is None


def test_what_is_compiled_anew_is_left_to_recompilation(judge):
    finding = judge("compile-startup", WORK, **compiled(20, 30, 30, 30, wall_s=100))
    assert finding.evidence["compiling_whole_ns"] == 20 * SECOND


def test_a_run_that_goes_on_is_not_judged(judge):
    assert judge("compile-startup", WORK, **compiled(30, wall_s=50, end=False)) is None


def test_a_run_that_compiles_nothing_has_nothing_to_report(judge):
    assert judge("compile-startup", WORK) is None
