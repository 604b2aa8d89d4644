"""Helpers for the tests of rules: a run with one analysed trace, and one rule's outcome."""

import pytest
from rule_cases import outcome

from lightning_gpuprof.records.schema import ProfilerCycle

CYCLE = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz", trace_bytes=1_000)


@pytest.fixture
def judge(analyze):
    """Return what a rule says of a run; `trace` is an analysis document of two steps."""

    def judged(finding_id, phases, *, trace=None, cycle=CYCLE, records=(), **options):
        if trace is not None:
            records = [*records, cycle]
            options["traces"] = {"t.gz": {"steps": [{}, {}], **trace}}
        return outcome(finding_id, analyze(phases, records=records, **options))

    return judged
