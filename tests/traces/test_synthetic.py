import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import (
    CAUSES,
    SyntheticSpec,
    answers,
    events,
    write_synthetic,
)

specs = st.builds(
    SyntheticSpec,
    steps=st.integers(1, 4),
    kernels_per_burst=st.integers(1, 8),
    kernel_ns=st.integers(8_000, 50_000),
    gaps_ns=st.dictionaries(st.sampled_from(CAUSES), st.integers(5_000, 90_000)),
    copy_ns=st.integers(3_000, 20_000),
    comm_ns=st.integers(0, 8_000),
    exposed_comm_ns=st.just(0),
    devices=st.integers(1, 2),
    stack_depth=st.integers(0, 2),
)


def parse(spec):
    return [json.loads(line, parse_float=Decimal) for line in events(spec)]


def device_spans(parsed, device):
    spans = [
        (int(e["ts"] * 1000), int((e["ts"] + e["dur"]) * 1000), e)
        for e in parsed
        if e.get("cat") in ("kernel", "gpu_memcpy") and e["pid"] == device
    ]
    return sorted(spans, key=lambda span: span[:2])


@settings(max_examples=40, deadline=None)
@given(specs)
def test_the_closed_form_answers_are_what_the_written_events_give(spec):
    parsed, known = parse(spec), answers(spec)

    assert len(parsed) == known.events
    for device in range(spec.devices):
        spans = [(start, end) for start, end, _ in device_spans(parsed, device)]
        busy, gaps, reached = 0, [], spans[0][0]
        for start, end in spans:
            if start > reached:
                gaps.append(start - reached)
            busy += max(0, end - max(start, reached))
            reached = max(reached, end)
        assert reached - spans[0][0] == known.span_ns
        assert busy == known.busy_ns
        assert sum(gaps) == sum(known.idle_ns.values())
        planted = Counter()
        for cause, count in known.idle_count.items():
            planted[spec.gaps_ns[cause]] += count
        assert Counter(gaps) == +planted


@settings(max_examples=40, deadline=None)
@given(specs)
def test_no_kernel_starts_before_its_launch_has_begun(spec):
    parsed = parse(spec)
    calls = {e["args"]["correlation"]: e for e in parsed if e.get("cat") == "cuda_runtime"}

    for device in range(spec.devices):
        for start, _, event in device_spans(parsed, device):
            call = calls[event["args"]["correlation"]]
            assert start >= int(call["ts"] * 1000)


def test_kernel_and_copy_tables_match_the_events():
    spec = SyntheticSpec(steps=4)
    totals = defaultdict(lambda: [0, 0])
    for start, end, event in device_spans(parse(spec), 0):
        totals[event["name"]][0] += 1
        totals[event["name"]][1] += end - start
    known = answers(spec)

    copy = totals.pop("Memcpy HtoD (Pinned -> Device)")
    assert {name: tuple(value) for name, value in totals.items()} == known.kernels
    assert known.copies == {"HtoD": (copy[0], copy[0] * spec.copy_bytes, copy[1])}


def test_shuffling_keeps_the_events_and_depends_only_on_the_seed(tmp_path):
    spec = SyntheticSpec(shuffle=True, seed=3)
    write_synthetic(tmp_path / "a.json", spec)
    write_synthetic(tmp_path / "b.json.gz", spec)
    write_synthetic(tmp_path / "c.json", replace(spec, shuffle=False))
    shuffled = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    ordered = json.loads((tmp_path / "c.json").read_text())["traceEvents"]

    assert (
        gzip.decompress((tmp_path / "b.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    )
    assert shuffled != ordered
    assert sorted(map(json.dumps, shuffled)) == sorted(map(json.dumps, ordered))


def test_a_bare_list_is_written_on_request(tmp_path):
    write_synthetic(tmp_path / "a.json", SyntheticSpec(bare_list=True))

    assert isinstance(json.loads((tmp_path / "a.json").read_text()), list)


def test_the_rank_is_written_as_kineto_does(tmp_path):
    write_synthetic(tmp_path / "a.json", SyntheticSpec(rank=2, world_size=4))

    written = json.loads((tmp_path / "a.json").read_text())["distributedInfo"]
    assert written == {"backend": "nccl", "rank": 2, "world_size": 4}


@pytest.mark.parametrize(
    "bad",
    [
        {"gaps_ns": {"magic": 1}},
        {"gaps_ns": {"python": 10}},
        {"kernel_ns": 10},
        {"copy_ns": 10},
        {"steps": 0},
        {"exposed_comm_ns": 40_000},
        {"comm_ns": 10**9},
    ],
)
def test_a_spec_that_cannot_hold_its_promises_is_refused(bad):
    with pytest.raises(ValueError, match=r"must|known causes"):
        SyntheticSpec(**bad)
