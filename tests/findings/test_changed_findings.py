from rule_cases import MS, US, made

from lightning_gpuprof.findings.changed_findings import findings_missing_in
from lightning_gpuprof.findings.model import Place, Severity


def callback(likely_ns, name="Pictures", **changes):
    place = Place(phase="callbacks", name=name)
    return made("slow-callback", 0, 2 * likely_ns, likely_ns=likely_ns, places=(place,), **changes)


def test_a_finding_of_which_less_than_a_tenth_is_left_is_gone():
    before = callback(8 * MS)
    assert findings_missing_in([callback(241 * US)], [before]) == (before,)
    assert findings_missing_in([callback(900 * US)], [before]) == ()


def test_what_a_report_only_mentions_is_not_gone_because_it_varies():
    before = callback(9 * US, severity=Severity.INFO)
    assert findings_missing_in([callback(0)], [before]) == ()


def test_callbacks_are_told_apart_by_their_names():
    before = callback(8 * MS)
    assert findings_missing_in([callback(8 * MS, name="Metrics")], [before]) == (before,)
