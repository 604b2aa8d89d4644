import pytest
from rule_cases import MS, WORK, span

from lightning_gpuprof.records.facts import BatchSizes, Padding


def batches(common, padded):
    tokens = Padding("batch['ids']", (16, 192), 1, positions=1_000, padded=padded, common=common)
    return [BatchSizes((3_072,) * 16, (tokens,))]


def test_padding_to_a_fixed_length_is_for_the_collate_function(evaluate):
    finding = evaluate(WORK, records=batches(600, 700))
    assert finding.title == "60% of batch['ids'] (16 x 192) is padding in every row"
    assert span(finding) == (3 * MS, round(0.6 * 1.4 * 10 * MS))
    assert "longest sequence of the batch" in finding.advice
    assert "alike length" not in finding.advice


def test_rows_that_stay_padded_are_to_be_grouped_by_length(evaluate):
    assert "Then put sequences of alike length" in evaluate(WORK, records=batches(600, 850)).advice
    finding = evaluate(WORK, records=batches(50, 500))
    assert finding.title == "50% of batch['ids'] (16 x 192) is padding of unequal rows"
    assert finding.advice.startswith("Put sequences of alike length")
    assert span(finding) == (0, 5 * MS)


def test_a_compiled_model_takes_a_few_lengths(evaluate):
    finding = evaluate(WORK, records=batches(600, 700), model={"compiled": True})
    assert "multiples of 64" in finding.advice


@pytest.mark.parametrize("records", [[], batches(0, 300), [BatchSizes((3_072,) * 16)]])
def test_is_silent_about_usual_padding(evaluate, records):
    assert evaluate(WORK, records=records) is None
