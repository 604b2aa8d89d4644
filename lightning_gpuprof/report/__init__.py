"""The report on a run, a trace, a comparison or a trial: one typed document and its renderers.

`document.py` has the types. `build_*.py` build a document of each kind; sections of runs and traces
are in `run/` and `trace/`, payloads of drawings in `charts/`. `console.py`, `markdown.py` and
`html.py` render documents; the tab's renderer is `tab/static/render.js`.

The public function `lightning_gpuprof.report(run)` has this package's name. As soon as a module of
it is imported, Python binds the name to the package, which can therefore be called as the function.
"""

import sys
from types import ModuleType
from typing import Any


class _ReportPackage(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Do what `run_report.report` does."""
        from lightning_gpuprof.report.run_report import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _ReportPackage
