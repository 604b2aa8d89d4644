"""Measures the PROFILE tab: opening, bytes per request, frame time, TensorBoard's start.

python benchmarks/reading/tab.py [--trace-mb 500] [--steps 1000000] [--runs 200]

One run holds a million steps and a generated trace of 500 MB (plain JSON) that was analysed before.
A log dir of 200 runs of 2,000 steps is opened at its newest run, and at the table of all runs.
Requests go through TensorBoard's WSGI application, first with nothing loaded. Frames are drawn by
headless Chromium without a GPU, each read back so that it is done.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share
sys.path.append(str(Path(__file__).parents[2] / "tests"))  # for what tests use too

from _figures import figure
from _harness import Spread, write_results
from browser_driver import Browser
from records import write_run
from synthetic import SyntheticSpec, write_synthetic
from tensorboard.backend import application
from tensorboard.plugins import base_plugin
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import Client

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LAYOUT_SUFFIX, plugin_dir, trace_name
from lightning_gpuprof.records.schema import ProfilerCycle
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.report.charts.layout_file import write_layout
from lightning_gpuprof.tab.loader import GpuProfLoader

KERNELS = 200
ROUTE = "/data/plugin/gpuprof"
OVERVIEW = ("runs", "run", "report", "steps")
TIMELINE = ("runs", "run", "traces", "device", "timeline", "timeline_cut")
"""Requested when a view is opened."""
OVERVIEW_BUCKETS = "160"
"""As overview.js asks."""
OPEN_S, AGAIN_S, START_MS, LIST_MS = 3.0, 1.0, 50.0, 1000.0
"""Opened for the first time since TensorBoard's start, and again: the run is kept then."""
STARTS = 7
FIRST_NUMBER = "return document.querySelector('.hero .big')"
FIRST_ROW = "return document.querySelector('[data-table=runs] tbody tr')"
STEPS_OF_MANY = 2_000
"""Steps of each of many runs."""
LAID_OUT = "return document.querySelector('.tl-canvas')?.timeline.loader.blocks && 1"
REQUEST_BYTES = 200_000
"""As sent, which is compressed."""
FRAME_MS = 1000 / 60
START = """
import time
from types import SimpleNamespace
from tensorboard import default
from tensorboard.plugins import base_plugin
plugins = [*default.get_static_plugins()]
context = base_plugin.TBContext(logdir={logdir!r}, flags=SimpleNamespace(logdir_spec=""))
started = time.perf_counter()
from lightning_gpuprof.tab.loader import GpuProfLoader
plugin = GpuProfLoader().load(context)
plugin.get_plugin_apps(), plugin.frontend_metadata()
print(time.perf_counter() - started)
"""
"""TensorBoard's work for the plugin at its start, in a fresh process."""


def big_run(folder: Path, *, steps: int, trace_mb: float) -> dict[str, Any]:
    """Write the run and prepare its trace; return sizes and the seconds that took."""
    write_run(str(folder), steps)
    trace = Path(plugin_dir(str(folder))) / trace_name(0, 0, 0)
    probe = folder / "probe.json"
    write_synthetic(probe, SyntheticSpec(steps=2, kernels_per_burst=KERNELS))
    count = max(1, round(trace_mb * 1e6 / (probe.stat().st_size / 2)))
    probe.unlink()
    plain = trace.with_suffix("")
    write_synthetic(plain, SyntheticSpec(steps=count, kernels_per_burst=KERNELS))
    plain_bytes = plain.stat().st_size
    with plain.open("rb") as source, gzip.open(trace, "wb", 3) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    plain.unlink()
    begin = time.perf_counter()
    document = msgspec.json.encode(analyze_file(str(trace))).decode()
    analyse_s = time.perf_counter() - begin
    trace.with_name(trace.name + ANALYSIS_SUFFIX).write_text(document)
    begin = time.perf_counter()
    write_layout(str(trace))
    prepare_s = time.perf_counter() - begin
    writer = RecordWriter(str(folder), rank=0)
    writer.write(ProfilerCycle(cycle=0, first_step=0, last_step=count - 1, trace_file=trace.name))
    writer.flush()
    return {
        "trace_plain_bytes": plain_bytes,
        "trace_bytes": trace.stat().st_size,
        "drawing_bytes": trace.with_name(trace.name + LAYOUT_SUFFIX).stat().st_size,
        "analysis_bytes": len(document),
        "analyse_s": analyse_s,
        "prepare_s": prepare_s,
    }


def many_runs(root: Path, count: int) -> None:
    for number in range(count):
        write_run(str(root / f"run_{number:03d}"), STEPS_OF_MANY)


def tensorboard(logdir: Path) -> Any:
    """Return TensorBoard's application with the plugin alone."""
    context = base_plugin.TBContext(logdir=str(logdir), flags=SimpleNamespace(logdir_spec=""))
    return application.TensorBoardWSGI([GpuProfLoader().load(context)])


def ask(client: Client, name: str, run: str = ".") -> dict[str, float]:
    params = {} if name in ("runs", "run_table") else {"run": run}
    if name == "steps":
        params["buckets"] = OVERVIEW_BUCKETS
    if name == "timeline_cut":
        params["columns"] = "4320"  # a window of 1440 pixels, and as much to each side
    begin = time.perf_counter()
    answer = client.get(f"{ROUTE}/{name}", query_string=params)
    body = answer.get_data()
    took = time.perf_counter() - begin
    if answer.status_code != 200:
        raise RuntimeError(f"{name} answered {answer.status_code}: {body[:300]!r}")
    return {"ms": took * 1e3, "bytes": len(body), "gzip_bytes": len(gzip.compress(body, 6))}


def requests(logdir: Path) -> dict[str, Any]:
    """Ask for what opening the overview and then the timeline asks for, cold and then warm."""
    client = Client(tensorboard(logdir))
    cold = {name: ask(client, name) for name in OVERVIEW}
    overview = sum(one["ms"] for one in cold.values())
    warm = {name: ask(client, name) for name in {**cold, **dict.fromkeys(TIMELINE)}}
    client = Client(tensorboard(logdir))
    of_timeline = {name: ask(client, name) for name in TIMELINE}
    cold = {**of_timeline, **cold}
    timeline = sum(one["ms"] for one in of_timeline.values())
    return {"cold": cold, "warm": warm, "overview_ms": overview, "timeline_ms": timeline}


def start_of_tensorboard(logdir: Path) -> dict[str, float]:
    script = START.format(logdir=str(logdir))
    said = [subprocess.check_output([sys.executable, "-c", script]) for _ in range(STARTS)]
    return Spread.of(float(one.split()[-1]) * 1e3 for one in said).as_dict()


def requests_of_many(logdir: Path, count: int) -> dict[str, dict[str, float]]:
    """Ask for what opening the newest of many runs and then their table asks for, cold."""
    client = Client(tensorboard(logdir))
    return {name: ask(client, name, f"run_{count - 1:03d}") for name in (*OVERVIEW, "run_table")}


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


FRAMES = """
const t = document.querySelector('.tl-canvas').timeline;
const pen = t.canvas.getContext('2d'), took = [];
const span = t.to - t.from;
for (let i = 0; i < 120; i++) {
  const begin = performance.now();
  t.from += span / 2000; t.to += span / 2000;
  t.draw();
  pen.getImageData(0, 0, 1, 1);
  took.push(performance.now() - begin);
}
took.sort((a, b) => a - b);
return {median_ms: took[60], p95_ms: took[114], blocks: t.loader.blocks.start.length,
        events: t.spec.payload.events};
"""


def has_browser() -> bool:
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


@contextmanager
def opened(logdir: Path) -> Iterator[tuple[Browser, Callable[[str, str], float]]]:
    """Yield a browser, and what returns the seconds from asking for a view to what it shows."""
    server = make_server("127.0.0.1", 0, tensorboard(logdir), threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.port}/data/plugin_entry.html?name=gpuprof"
    browser = Browser()

    def opened_s(view: str, shown: str) -> float:
        begin = time.perf_counter()
        browser.open(f"{base}#p.gpuprof.view={view}")
        browser.wait(shown)
        return time.perf_counter() - begin

    try:
        browser.open("about:blank")  # the browser's own start is no part of the page
        yield browser, opened_s
    finally:
        browser.close()
        server.shutdown()


def first_cards(logdir: Path) -> dict[str, float] | None:
    """Open the newest of many runs and then their table; None without a browser."""
    if not has_browser():
        return None
    with opened(logdir) as (_, opened_s):
        overview_s = opened_s("overview", FIRST_NUMBER)
        return {"overview_open_s": overview_s, "runs_open_s": opened_s("runs", FIRST_ROW)}


def frames(logdir: Path) -> dict[str, Any] | None:
    """Open the page in a browser and draw frames while panning; None without a browser."""
    if not has_browser():
        return None
    with opened(logdir) as (browser, opened_s):
        overview_s = opened_s("overview", FIRST_NUMBER)
        again_s = opened_s("overview", FIRST_NUMBER)
        timeline_s = opened_s("timeline", LAID_OUT)
        whole = browser.run(FRAMES)
        browser.run(
            "const t = document.querySelector('.tl-canvas').timeline;"
            "t.show(t.span[0], t.span[0] + (t.span[1] - t.span[0]) / 20); t.draw()"
        )
        time.sleep(1.0)
        part = browser.run(FRAMES)
    return {
        "overview_open_s": overview_s,
        "overview_again_s": again_s,
        "timeline_open_s": timeline_s,
        "whole_trace": whole,
        "twentieth": part,
    }


def judge(result: dict[str, Any]) -> list[bool]:
    """Hold what was measured against what the tab promises; not measured is left out."""
    asked = result["requests"]
    many = result["requests_of_many"]
    newest_s = sum(many[name]["ms"] for name in OVERVIEW) / 1e3
    largest = max(one["gzip_bytes"] for one in asked["cold"].values())
    values = [
        ("overview, requests s", asked["overview_ms"] / 1e3, OPEN_S),
        ("timeline, requests s", asked["timeline_ms"] / 1e3, OPEN_S),
        ("largest reply, bytes as sent", largest, REQUEST_BYTES),
        ("listing of many runs, ms", result["listing"]["ms"], LIST_MS),
        ("newest of many runs, requests s", newest_s, OPEN_S),
        ("table of many runs, request s", many["run_table"]["ms"] / 1e3, OPEN_S),
        ("added to TensorBoard's start, ms", result["start_added_ms"]["median"], START_MS),
    ]
    if cards := result["first_cards_of_many"]:
        values += [
            ("newest of many runs in a browser, s", cards["overview_open_s"], OPEN_S),
            ("table of many runs in a browser, s", cards["runs_open_s"], OPEN_S),
        ]
    for key, name in (("frames_big", "big trace"), ("frames_200k", "200k events")):
        if frame := result[key]:
            drawn = frame["whole_trace"]
            values += [
                (f"overview in a browser, {name}, s", frame["overview_open_s"], OPEN_S),
                (f"first number again, {name}, s", frame["overview_again_s"], AGAIN_S),
                (f"timeline in a browser, {name}, s", frame["timeline_open_s"], OPEN_S),
                (f"frame, {name}, median ms", drawn["median_ms"], FRAME_MS),
                (f"frame, {name}, 95th percentile ms", drawn["p95_ms"], FRAME_MS),
            ]
    return [figure(f"tab: {name}", value, most=limit) for name, value, limit in values]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace-mb", type=float, default=500)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder) / "one", Path(folder) / "many"
        result: dict[str, Any] = {"steps": args.steps, "runs": args.runs}
        result["prepared"] = big_run(one, steps=args.steps, trace_mb=args.trace_mb)
        result["requests"] = requests(one)
        many_runs(many, args.runs)
        result["listing"] = ask(Client(tensorboard(many)), "runs")
        result["requests_of_many"] = requests_of_many(many, args.runs)
        result["first_cards_of_many"] = first_cards(many)
        result["start_added_ms"] = start_of_tensorboard(many)
        result["frames_big"] = frames(one)
        small = Path(folder) / "small"
        big_run(small, steps=1_000, trace_mb=60)
        result["frames_200k"] = frames(small)
    print(json.dumps(result, indent=1))
    print(write_results("tab", result))
    return judge(result).count(False)


if __name__ == "__main__":
    raise SystemExit(main())
