import pytest
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.roofline.roofline import roofline
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.tables import NameStats, Tables
from lightning_gpuprof.views.documents.other_files import tables_payload
from lightning_gpuprof.views.documents.trace_payload import (
    critical_path_payload,
    roofline_payload,
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("work") / "trace.json"
    write_synthetic(path, SyntheticSpec(steps=2))
    return link(open_timeline(str(path)))


def test_roofline_rows_have_bound_and_total_under_the_names_that_rules_read(trace):
    payload = roofline_payload(roofline(trace))

    assert payload["roofs"]["device"] == "NVIDIA A100 SXM 80GB"
    assert payload["roofs"]["url"].startswith("https://")
    row = payload["roofline"][0]
    assert row["bound"] in ("compute", "memory")
    assert sum(r["total_ns"] for r in payload["roofline"]) == payload["roofs"]["total_ns"]


def test_what_the_table_of_the_critical_path_leaves_out_is_summed_up(trace):
    path = critical_path(trace)
    payload = critical_path_payload(path, top=3)

    assert len(payload["parts"]) == 3
    shown = sum(part["total_ns"] for part in payload["parts"])
    assert shown + payload["rest_ns"] == payload["span_ns"] == sum(payload["kind_ns"].values())


def test_shares_of_a_statistics_file_add_up(trace):
    stats = (NameStats("a", 2, 30), NameStats("b", 1, 10))
    payload = tables_payload("x.csv", Tables("stats-csv", "kernel", stats))

    assert [row["frac"] for row in payload["stats"]] == [0.75, 0.25]
    assert payload["stats"][0]["mean_ns"] == 15
