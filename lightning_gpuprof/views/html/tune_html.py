"""The curves of `lightning-gpuprof tune` as one HTML file that needs nothing else."""

import json
from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.views.html.web_assets import plotly_path


def tune_html(document: Mapping[str, Any]) -> str:
    """Return a page with throughput and, where measured, memory against batch size.

    Raises:
        ConfigError: The plotly package, which has the drawing code, is not installed.
    """
    bundle = plotly_path()
    if bundle is None:
        raise ConfigError("--html needs the plotly package. Run `pip install plotly`.")
    drawing = json.dumps({"data": traces(document), "layout": layout(document)})
    drawing = drawing.replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Batch size</title></head><body>
<div id="plot"></div>
<script type="application/json" id="drawing">{drawing}</script>
<script>{bundle.read_text(encoding="utf-8")}</script>
<script>
const drawing = JSON.parse(document.getElementById("drawing").textContent);
Plotly.newPlot("plot", drawing.data, drawing.layout, {{responsive: true}});
</script></body></html>
"""


def traces(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the curves; the memory's is left out where it was not measured."""
    ran = [point for point in document["points"] if point["samples_per_s"] is not None]
    sizes = [point["batch_size"] for point in ran]
    rates = [point["samples_per_s"] for point in ran]
    curves: list[dict[str, Any]] = [
        {"name": "samples per second", "x": sizes, "y": rates, "mode": "lines+markers"}
    ]
    peaks = [point.get("peak_reserved_bytes") for point in ran]
    if any(peak is not None for peak in peaks):
        curve = {"name": "peak reserved", "x": sizes, "y": peaks, "mode": "lines+markers"}
        curves.append({**curve, "yaxis": "y2"})
    return curves


def layout(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes, and a line at the suggested size."""
    suggested = document["suggested_batch_size"]
    title = "no suggestion" if suggested is None else f"suggested batch size: {suggested}"
    line = {"type": "line", "x0": suggested, "x1": suggested, "yref": "paper", "y0": 0, "y1": 1}
    return {
        "title": {"text": f"{title} ({document['reason']})"},
        "xaxis": {"title": {"text": "batch size"}},
        "yaxis": {"title": {"text": "samples per second"}, "rangemode": "tozero"},
        "yaxis2": {
            "title": {"text": "bytes"},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
        },
        "shapes": [] if suggested is None else [{**line, "line": {"dash": "dot"}}],
    }
