import json
from pathlib import Path

import msgspec
import pytest

from lightning_gpuprof.report.document import Unit, Value
from lightning_gpuprof.report.format import shown

CASES = json.loads((Path(__file__).parent.parent / "data/format_cases.json").read_text())


@pytest.mark.parametrize(("unit", "value", "text"), CASES)
def test_a_value_is_formatted_by_its_unit_as_in_the_browser(unit, value, text):
    assert shown(msgspec.convert(value, Value), unit) == text


def test_every_unit_has_a_case():
    assert {unit for unit, _, _ in CASES} == set(Unit.__args__)
