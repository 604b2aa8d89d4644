"""Where the page's own modules lie, and the Plotly bundle of the plotly package."""

import importlib.util
from pathlib import Path

import lightning_gpuprof

STATIC = Path(lightning_gpuprof.__file__).parent / "tb_plugin" / "static"
"""ES modules and the stylesheet, shared by the tab and the HTML report."""


def plotly_path() -> Path | None:
    """Return where the plotly package keeps its bundle, found without importing it."""
    spec = importlib.util.find_spec("plotly")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    return None
