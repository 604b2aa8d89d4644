"""The table of operations that are slow by their name."""

import re

import pytest
from rule_cases import MS, op

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.findings.operators import loading_operations, operators
from lightning_gpuprof.records.lines import HostLines, LineCount

ROWS = (*operators().loading, *operators().computing)


def at(source="", callee=None, count=10, line=7, operation=None):
    place = "data_wait", "data.py", line, "__getitem__"
    return LineCount(*place, source, callee, None, count, operation)


def sampled(*lines, whole=20):
    return loading_operations(HostLines(whole, lines, {"data_wait": whole}))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_is_complete(row):
    assert row.callee or row.written or row.operators
    for pattern in (row.callee, row.written):
        re.compile(pattern)
    assert row.whole_advice
    assert row.source


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (at(callee="multiprocessing.poll"), "own worker processes"),
        (at(callee="copy.deepcopy"), "deep copies"),
        (at(callee="_strptime._strptime"), "parsing dates"),
        (at(callee="re.sub"), "text search"),
        (at(callee="json.loads"), "parsing"),
        (at(callee="PIL.resize"), "resizing images"),
        (at(callee="PIL.open"), "decoding images"),
        (at(callee="pandas.__getitem__"), "table rows"),
        (at(callee="zipfile.read"), "decompression"),
        (at(callee="numpy.load"), "reading files"),
        (at(callee="numpy.choice"), "weighted sampling"),
        (at(callee="scipy.fft"), "filters and spectra"),
        (at(callee="tokenizers.encode"), "tokenization"),
        (at(source="rows = self.db.execute(QUERY)", operation="execute"), "database queries"),
        (at(source="x = torch.tensor(self.rows[i])", operation="tensor"), "lists of numbers"),
        (at(source="x = x.float() / 255", operation="/"), "normalization"),
        (at(source="seen = np.append(seen, new)", operation="append"), "growing arrays"),
    ],
)
def test_lines_that_make_batches_are_known_by_what_they_do(line, name):
    assert [operation.pattern.name for operation in sampled(line)] == [name]


@pytest.mark.parametrize("operation", [None, "encode", "to"])
def test_a_sample_beside_the_operation_has_no_advice_of_it(operation):
    source = "return torch.tensor(self.encode(text)).to(self.device)"
    assert sampled(at(source=source, operation=operation)) == ()
    assert [
        operation.pattern.name for operation in sampled(at(source=source, operation="tensor"))
    ] == ["lists of numbers"]


@pytest.mark.parametrize("line", [at(callee="mine.work"), at(source="x = self.rows[index]")])
def test_other_lines_have_no_advice_of_their_own(line):
    assert sampled(line) == ()


def test_an_operation_that_is_one_of_many_is_not_named():
    assert sampled(at(callee="json.loads"), whole=60) == ()
    assert sampled(at(callee="json.loads", count=4), whole=8) == ()


def test_the_longest_operation_comes_first():
    operations = sampled(at(callee="json.loads", count=8), at(callee="re.sub", count=10, line=9))
    assert [operation.frac for operation in operations] == [0.5, 0.4]
    assert operations[0].line.line == 9


def test_the_costliest_operator_is_told_with_its_rows_advice(judge):
    rows = [op("aten::sort", 2, 6 * MS)]
    operations = judge("costly-line", {"forward": 10 * MS}, trace={"operators": rows})
    assert operations.severity is Severity.INFO
    assert "topk" in operations.advice
