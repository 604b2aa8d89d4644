"""Which operators the roofline shows, what it calls them bound by, and how roofs are named."""

from types import SimpleNamespace

import pytest

from lightning_gpuprof.analysis.trace_tables import RooflineRow, Roofs, TraceAnalysis
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.roofline import roofline_view

ROOFS = Roofs(device="NVIDIA H100 SXM", peak_flop_per_s={}, total_ns=1000, flop_count={})
H100 = {"peak_bytes_per_s": 3.35e12}


@pytest.fixture
def view(monkeypatch):
    """Return the payload for rows of a roofline."""

    def build(*rows):
        analysis = TraceAnalysis(roofline=rows, roofs=ROOFS)
        module = "lightning_gpuprof.report.charts.roofline"
        monkeypatch.setattr(f"{module}.analysed_cycle", lambda *_: ("t", analysis))
        return roofline_view(SimpleNamespace(), Query({}))

    return build


def row(name="aten::mm", *, dtype="bf16", peak=989.4e12, **fields):
    costs = {"flop_per_byte": 500.0, "flop_per_s": 1e14, "total_ns": 1000, "count": 1}
    return RooflineRow(name=name, dtype=dtype, peak_flop_per_s=peak, **H100, **costs | fields)


@pytest.mark.parametrize(
    ("frac", "limit", "shown"), [(0.13, "latency", "neither roof"), (0.5, "compute", "compute")]
)
def test_an_operator_far_below_its_roof_is_not_called_bound_by_it(view, frac, limit, shown):
    payload = view(row(bound="compute", roof_frac=frac))
    assert payload.points[0].limit == limit
    assert payload.sections[1].body[0].rows[0]["limit"] == shown


def test_what_seems_faster_than_the_device_is_not_drawn(view):
    payload = view(row(), row("aten::add", flop_per_s=5e15, anomaly="faster than the device"))
    assert [point.name for point in payload.points] == ["aten::mm"]


def test_roofs_have_their_types_and_bandwidth(view):
    fp32 = {"peak": 67e12, "bound": "compute"}
    payload = view(
        row(), *(row(dtype=dtype, **fp32) for dtype in ("fp32", "int64", "fp64")), row(dtype="fp16")
    )
    labels = [(roof.label, roof.bandwidth) for roof in payload.roofs]
    assert labels == [
        ("bf16, fp16: 989.4 TFLOP/s", "3.35 TB/s"),
        ("fp32, int64, ...: 67 TFLOP/s", "3.35 TB/s"),
    ]
