from rule_cases import made

from lightning_gpuprof.findings.model import Range, Severity
from lightning_gpuprof.findings.ranking import with_trials
from lightning_gpuprof.records.trials import Side, Trial, Trials

WAIT = made("data-wait", 10, 90, confidence=0.5, change="DataLoader(..., num_workers=2)")
OTHER = made("slow-logging", 30, 40)


def trial(value, gain, *, verdict="faster", alters="", findings=("data-wait",)):
    return Trial(
        change="num_workers",
        value=value,
        verdict=verdict,
        alters=alters,
        before=Side(100),
        after=Side(round(100 * (1 - gain))),
        low_frac=gain - 0.1,
        gain_frac=gain,
        high_frac=gain + 0.1,
        findings=findings,
        paste=f"num_workers={value}",
    )


def judged(*trials):
    return with_trials([WAIT, OTHER], Trials(program="train.py", seconds=1.0, trials=trials))


def test_the_best_trial_takes_the_place_of_the_model():
    first, second = judged(trial(1, 0.3), trial(2, 0.6))
    assert (first.id, first.saving_ns, first.confidence) == ("data-wait", Range(50, 70), 1.0)
    assert (first.change, first.measured) == ("num_workers=2", "num_workers=2")
    assert second == OTHER


def test_what_alters_results_speaks_only_where_nothing_else_does():
    altering = trial(2, 0.9, alters="precision")
    assert judged(trial(1, 0.6), altering)[0].measured == "num_workers=1"
    assert judged(altering)[0].measured == "num_workers=2"


def test_a_change_that_gains_nothing_is_no_warning():
    first, second = judged(trial(1, -0.3, verdict="slower"))
    assert (first.id, second.id) == ("slow-logging", "data-wait")
    assert (second.severity, second.saving_ns) == (Severity.INFO, Range(0, 0))
    assert second.change == WAIT.change


def test_without_trials_of_its_own_a_finding_stays_as_it_is():
    assert judged(trial(1, 0.3, findings=())) == [OTHER, WAIT]  # as they rank
    assert with_trials([WAIT, OTHER], None) == [WAIT, OTHER]
