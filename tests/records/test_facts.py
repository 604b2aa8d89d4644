from typing import get_args

from lightning_gpuprof.records.facts import Counters, FactBase
from lightning_gpuprof.records.schema import Record


def subclasses(of):
    for one in of.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_fact_is_among_the_records_that_the_reader_knows():
    missing = {one.__name__ for one in subclasses(FactBase)} - {
        one.__name__ for one in (Counters, *get_args(Record))
    }
    assert not missing, "add them to `Fact` in records/facts.py, or the reader refuses their lines"
