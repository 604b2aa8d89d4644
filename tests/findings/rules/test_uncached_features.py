"""Frozen modules that compute the same again in each epoch."""

import pytest

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.module_calls import FROZEN_NOTE, CallPlace, FrozenModule
from lightning_gpuprof.records.schema import Device, Note

MS = 1_000_000
PHASES = {"forward": 6 * MS, "backward": 4 * MS}
PLACE = CallPlace("train.py", 43, "training_step", "features = self.body(pictures)")


@pytest.fixture
def look(judge):
    def looked(seen_again, taken_ns=2 * MS, **options):
        frozen = FrozenModule("body", taken_ns, 24, seen_again, 1024, PLACE)
        note = Note(step=1, name=FROZEN_NOTE, value=(frozen,))
        return judge("uncached-features", PHASES, records=[note], **options)

    return looked


def span(finding):
    return finding.saving_ns.low, finding.saving_ns.high


@pytest.mark.parametrize("seen_again", [24, 22])
def test_a_frozen_module_that_is_given_the_same_again_could_be_asked_once(look, seen_again):
    (finding,) = look(seen_again)
    assert finding.title == (
        "self.body is frozen and is given the same samples in each epoch: 2.00 ms of each step "
        "(20.0%)"
    )
    assert "self.body(samples)" in finding.change
    assert "1.00 KiB" in finding.advice
    assert (finding.where[0].line, finding.severity) == (43, Severity.CRITICAL)
    assert span(finding) == (1_600_000, 2_400_000)


def test_on_a_gpu_the_host_may_be_ahead(look):
    (finding,) = look(24, device=Device(type="cuda"))
    assert finding.saving_ns.low == 0


def test_samples_that_were_augmented_need_it_again(look):
    assert look(20) == ()


def test_a_small_module_needs_no_cache(look):
    assert look(24, taken_ns=MS // 4) == ()


def test_without_a_frozen_module_there_is_nothing_to_say(judge):
    assert judge("uncached-features", PHASES) == ()
