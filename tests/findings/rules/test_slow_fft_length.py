import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.findings.rules.slow_fft_length import factors, is_hard, next_easy
from lightning_gpuprof.records.schema import Device

PHASES = {"forward": 60 * MS, "backward": 40 * MS}


@pytest.fixture
def said(judge):
    def say(trace=None, **options):
        return judge("slow-fft-length", PHASES, trace=trace, **options)

    return say


def transformed(*lengths, total_ns=60 * MS, padded=False):
    row = {"lengths": list(lengths), "count": 4, "total_ns": total_ns, "padded": padded}
    return {"transforms": [row]}


def test_a_length_with_a_large_factor_is_told_with_the_next_without(said):
    finding = said(transformed(6001, padded=True))
    assert "FFTs of length 6001 = 17 x 353 take 30.0 ms" in finding.title
    assert "6048" in finding.advice
    assert finding.evidence["better_length_count"] == 6048
    assert span(finding) == (18 * MS, 28_200_000)


def test_a_factor_that_is_not_so_large_saves_less(said):
    finding = said(transformed(2040, padded=True))  # its largest is 17
    assert span(finding) == (4_800_000, 25_800_000)


def test_nothing_is_sure_where_just_that_length_may_be_needed(said):
    finding = said(transformed(64, 997))
    assert "997, a prime" in finding.title
    assert finding.saving_ns.low == 0


def test_is_silent_on_lengths_of_small_factors_and_short_transforms(said):
    assert said(transformed(6000)) is None
    assert said(transformed(1001)) is None  # 7 x 11 x 13
    assert said(transformed(6001, total_ns=9 * MS)) is None


def test_factors_of_lengths():
    assert [factors(one) for one in (12, 17, 2 * 353)] == [[2, 2, 3], [17], [2, 353]]
    assert [is_hard(one) for one in (13, 17, 2**14)] == [False, True, False]
    assert [next_easy(one) for one in (17, 997, 4096)] == [18, 1000, 4096]


def test_is_silent_on_a_gpu_and_abstains_without_a_trace(said):
    assert said(transformed(6001), device=Device(type="cuda")) is None
    assert isinstance(said(), Abstained)
