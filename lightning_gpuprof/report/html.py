"""A run as one HTML file: the tab's own views and data, opened from disk without a network."""

import base64
import html
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import msgspec

from lightning_gpuprof.errors import GpuProfError, RecordError, TraceError
from lightning_gpuprof.records.files import LAYOUT_SUFFIX
from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.charts.layout_file import write_layout
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.registry import VIEWS, find_view
from lightning_gpuprof.report.charts.run_views import Listing, runs_view
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.load import load_report, resolve_run
from lightning_gpuprof.report.static import PLOTLY, STATIC
from lightning_gpuprof.report.stored_analysis import traces_of

MAX_TRACES = 4
"""With more traces the file would become too large for mail; the tab shows all of them."""
STEP_BUCKETS = 1000
TIMELINE_COLUMNS = 3000
CYCLE_VIEWS = ("operators", "device", "calls", "roofline", "timeline", "timeline_cut")
MAX_DATA_BYTES = 3_500_000
"""With Plotly's 0.5 MB, this keeps the file below 4.5 MB."""
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)
"""The content security policy of the file, by which the browser fetches nothing."""

_UNSAFE = re.compile("[<>&\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Markup, line ends that JSON allows and scripts do not, and direction marks of text."""


def render_html(run: str, *, session: int | None = None) -> str:
    """Return the report of a run as one self-contained page."""
    run, _ = resolve_run(run)
    loaded = LoadedRun(run)
    # Loaded first: if the run cannot be read, one error says so instead of every view of the page.
    report = load_report(run, session=session, ranks=loaded.ranks, analyse=True)
    text = render(build_run(report), verbose=True)
    return _page(loaded.name, _data(loaded, session), text)


def write_html(target: str, run: str, *, session: int | None = None) -> None:
    """Write the report of a run as one page, after preparing its last traces for the timeline.

    Raises:
        RecordError: There is no such run, or the file cannot be written.
    """
    run, _ = resolve_run(run)
    lay_out(run)
    html = render_html(run, session=session)
    try:
        Path(target).write_text(html, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{target} cannot be written ({error}). Pass another file.") from error


def lay_out(run: str) -> None:
    """Prepare the last traces for the timeline and the call tree, unless that is done already."""
    for trace in traces_of(run)[-MAX_TRACES:]:
        if not Path(trace + LAYOUT_SUFFIX).exists():
            with suppress(TraceError, OSError):  # the views then say that the trace is not prepared
                write_layout(trace)


def _data(run: LoadedRun, session: int | None) -> dict[str, Any]:
    listing = Listing(runs_view({run.name: run.path}), (), (), SCHEMA_VERSION)
    answers: dict[str, Any] = {"runs": msgspec.to_builtins(listing)}
    chosen = {} if session is None else {"session": str(session)}
    for name, params, extra in _requests(run):
        key = "&".join([name, *(f"{k}={v}" for k, v in sorted(params.items()))])
        answers[key] = _answer(run, name, {**params, **extra, **chosen})
    if "ranks" in answers["run"]:
        _keep_one_session(answers["run"])
    _merge_equal(answers)
    _fit(answers)
    return answers


def _merge_equal(answers: dict[str, Any]) -> None:
    """Store an answer once that the page can ask for both by the cycle's name and by default."""
    for name in CYCLE_VIEWS:
        latest = answers["timeline" if name == "timeline_cut" else name].get("trace")
        if latest is not None and f"{name}&trace={latest}" in answers:
            answers[f"{name}&trace={latest}"] = {"same_as": name}


def _fit(answers: dict[str, Any]) -> None:
    """Leave out the largest answers about single cycles until the data are small enough."""
    sizes = {key: len(msgspec.json.encode(answer)) for key, answer in answers.items()}
    total = sum(sizes.values())
    cycles = [key for key in sizes if key.split("&")[0] in CYCLE_VIEWS]
    for key in sorted(cycles, key=lambda key: -sizes[key]):
        if total <= MAX_DATA_BYTES:
            return
        answers[key] = {"error": "Left out to keep this file small; the tab has it."}
        total -= sizes[key]


def _requests(run: LoadedRun) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """Yield what the page can ask for: (view, parameters, parameters that the page leaves out)."""
    for name in VIEWS:
        yield name, {}, {"buckets": str(STEP_BUCKETS), "columns": str(TIMELINE_COLUMNS)}
    for _, cycle in run.cycles()[-MAX_TRACES:]:
        for name in CYCLE_VIEWS:
            yield name, {"trace": cycle.trace_file}, {"columns": str(TIMELINE_COLUMNS)}


def _answer(run: LoadedRun, name: str, params: dict[str, str]) -> Any:
    try:
        payload = find_view(name)(run, Query(params))
    except GpuProfError as error:
        return {"error": str(error)}
    if isinstance(payload, bytes):
        return {"base64": base64.b64encode(payload).decode()}
    return msgspec.to_builtins(payload)


def _keep_one_session(header: dict[str, Any]) -> None:
    """Leave out the ranks and sessions that are not in this file, so that nobody can pick them."""
    header["ranks"] = [rank for rank in header["ranks"] if rank["rank"] == header["rank"]]
    for rank in header["ranks"]:
        sessions = rank["sessions"]
        rank["sessions"] = [line for line in sessions if line["session"] == header["session"]]


def _page(name: str, data: dict[str, Any], text: str) -> str:
    sheets = ("style.css", "views.css")
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in sheets)
    script = bundle(STATIC, "report.js").replace("</script", r"<\/script")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">
<title>{html.escape(_visible(name))}: where the time goes</title>
<style>{style}</style>
<script type="application/json" id="gp-data">{_embedded(data)}</script>
<script type="text/plain" id="gp-plotly">{_plotly()}</script>
</head>
<body>
<noscript><pre class="code">{html.escape(_visible(text))}</pre></noscript>
<script>{script}</script>
</body>
</html>
"""


def _embedded(data: dict[str, Any]) -> str:
    """Return JSON without `</script`, which would end the script element that holds it."""
    text = msgspec.json.encode(data).decode()
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plotly() -> str:
    """Return the Plotly bundle compressed, in base64."""
    return base64.b64encode(PLOTLY.read_bytes()).decode()


def _visible(text: str) -> str:
    """Return text with control and direction characters as escapes, except for line ends."""
    return "".join(
        char if char == "\n" or char.isprintable() else f"\\u{ord(char):04x}" for char in text
    )


_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?=(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*(?:/\*\*(?:[^*]|\*(?!/))*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE)
"""A comment that has its lines for itself; the file does not need it."""
_LEFT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """Return one script that does what the module `entry` of a folder does."""
    texts: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    wanted = [entry]
    while wanted:
        if (name := wanted.pop()) not in texts:
            texts[name] = (folder / name).read_text(encoding="utf-8")
            imports[name] = [_resolve(name, target) for _, target in _IMPORT.findall(texts[name])]
            wanted += imports[name]
    order = [
        *TopologicalSorter(imports).static_order()
    ]  # raises CycleError if modules import each other
    numbers = {name: index for index, name in enumerate(order)}
    parts = [_wrap(name, texts[name], numbers) for name in order]
    return '"use strict";\n(() => {\n' + "".join(parts) + "})();\n"


def _resolve(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _wrap(name: str, text: str, numbers: dict[str, int]) -> str:
    """Make a module a function that returns what it exports."""

    def imported(match: re.Match[str]) -> str:
        names = match[1].replace(" as ", ": ")
        return f"const {{{names}}} = m{numbers[_resolve(name, match[2])]};\n"

    exports = [match["name"] for match in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _IMPORT.sub(imported, _COMMENT.sub("", text)))
    if unknown := _LEFT.search(body):
        raise ValueError(f"{name} has a form that cannot be bundled: {unknown[0]}")
    returned = ", ".join(exports)
    whole = f"(() => {{\n{body}return {{ {returned} }};\n}})()"
    return f"// {name}\nconst m{numbers[name]} = {whole};\n"
