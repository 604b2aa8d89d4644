import pytest
from rule_cases import device_sample

GIB = 2**30


def test_another_process_is_reported_with_its_bytes(evaluate):
    records = [device_sample(max_others_bytes=3 * GIB, max_others_count=1), device_sample()]
    finding = evaluate({"forward": 1}, records=records)
    assert finding.title == "Another process holds 3.00 GiB on this device"
    two = [device_sample(max_others_bytes=3 * GIB, max_others_count=2)]
    assert evaluate({"forward": 1}, records=two).title.startswith("2 other processes")


@pytest.mark.parametrize("fields", [{"max_others_bytes": 0, "max_others_count": 0}, {}])
def test_no_other_process_and_an_unknown_state_are_silent(evaluate, fields):
    assert evaluate({"forward": 1}, records=[device_sample(**fields)]) is None
