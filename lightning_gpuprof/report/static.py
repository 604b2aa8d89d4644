"""The files for the browser. TensorBoard imports this module as it starts, so it must be light."""

import importlib.util
from pathlib import Path

import lightning_gpuprof

STATIC = Path(lightning_gpuprof.__file__).parent / "tab" / "static"
"""ES modules and the stylesheet, shared by the tab and the HTML report."""


PLOTLY = STATIC / "plotly" / "plotly-basic.min.js.gz"
"""The part of Plotly that draws lines, areas, bars and points, compressed. `source.json` beside it
says where it is from; `scripts/fetch_plotly.py` fetches it."""


def installed_file(package: str, *parts: str) -> Path | None:
    """Return the path of a file of an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((path for folder in folders if (path := Path(folder, *parts)).is_file()), None)
