"""What is fuzzed: seeds of every kind of file, and what reads them."""

import io
import json
import os
import pickle
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import SimpleNamespace

import made_runs
from fuzz import mutate
from snapshot_builder import SnapshotBuilder
from synthetic import SyntheticSpec, write_synthetic
from tab_client import ROUTE, make_client

from lightning_gpuprof import cli
from lightning_gpuprof.errors import UnknownTraceError
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir
from lightning_gpuprof.records.reader import parse_records
from lightning_gpuprof.report.build_file import build_file
from lightning_gpuprof.report.charts.memory_sites import write_sites
from lightning_gpuprof.report.stored_analysis import read_analysis, write_analysis
from lightning_gpuprof.tab import replies
from lightning_gpuprof.traces import ReadOptions, open_timeline

DATA = Path(__file__).parents[1] / "data" / "traces"
TRACE = "rank0-cycle0.pt.trace.json.gz"
SNAPSHOT = "rank0-step120-oom.memory.pickle"
CHANGES = {
    **dict.fromkeys((".db", ".rpd", ".sqlite"), mutate.database),
    ".csv": mutate.table,
    ".pb": mutate.messages,
    ".pickle": mutate.pickled,
    ".gz": mutate.zipped(mutate.as_json),
    ".prof": mutate.zipped(mutate.raw),
}
ODD_PATHS = ("/static/%00x", "/static/../x", "/static/" + "a" * 5000, "/perfetto/%ff", "/perfetto/")
SHAPES = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "Concrete Inputs": []}


class Light:
    """Decodes records and stored analyses, and reads files of every kind, a few kB each."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "file")
        made = Path(folder, "made")
        write_synthetic(made, SyntheticSpec(steps=1, kernels_per_burst=2, stack_depth=1))
        trace = json.loads(made.read_text())
        events = trace["traceEvents"]
        op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 9, "dur": 2}
        events[:] = [*events[:24], *({**op, "args": SHAPES} for _ in range(3))]
        made_runs.traced_run(Path(folder, "run"), prepared=False)
        analysed = Path(plugin_dir(os.path.join(folder, "run")), TRACE)
        write_analysis(str(analysed))
        kept = Path(f"{analysed}{ANALYSIS_SUFFIX}")
        snapshot = SnapshotBuilder()
        snapshot.free(snapshot.allocate(1 << 20, line=7))
        snapshot.allocate(1 << 30, line=9)
        self.targets = {
            "records": ([small_records(Path(folder, "small"))], mutate.records, self.parse),
            "analysis": ([kept.read_bytes()], mutate.as_json, self.load),
            "kineto": ([json.dumps(trace).encode(), json.dumps(events).encode()], mutate.as_json),
            "memory": ([pickle.dumps(snapshot.content())], mutate.pickled),
        }
        for seed in sorted(DATA.iterdir()):
            self.targets[seed.name] = ([seed.read_bytes()], CHANGES.get(seed.suffix, mutate.raw))

    def parse(self, data):
        parse_records(0, io.BytesIO(data), name="rank0.jsonl")

    def load(self, data):
        Path(self.path + ANALYSIS_SUFFIX).write_bytes(data)
        read_analysis(self.path)

    def read(self, data):
        Path(self.path).write_bytes(data)
        try:
            open_timeline(self.path, ReadOptions(stacks=True, memory=True))
        except UnknownTraceError:
            build_file(self.path)

    def execution(self, name, rng):
        """Return the bytes of one execution, and what is to read them."""
        seeds, change, *read = self.targets[name]
        change = mutate.raw if rng.random() < 0.2 else change
        return change(rng.choice(seeds), rng), read[0] if read else self.read


MORE = b"""{"kind":"outside","where":"epoch_end","start_ns":9,"dur_ns":5,"phase_ns":{"validation":5}}
{"kind":"device","step":9,"start_ns":0,"end_ns":9,"samples":2,"busy_frac":0.5,"throttle_frac":{"x":1}}
{"kind":"sync","file":"a.py","line":7,"function":"f","source":"x.item()","owner":"user","operation":"item","count":3,"steps_watched":2,"blocked_ns":5}
{"kind":"sync_steps","steps":2}
{"kind":"core_wait","wall_ns":90,"queued_ns":30}
{"kind":"cpu_quota","cores":1.5,"periods":9,"throttled":3}
{"kind":"compile_time","step":5,"took_ns":90}
{"kind":"host_lines","whole":20,"lines":[{"phase":"forward","file":"a.py","line":7,"function":"f","source":"x = y","callee":"torch.mm","kind":"torch","count":5}],"by_phase":{"forward":12}}
{"kind":"worker_lines","processes":2,"work":9,"waiting":3,"handing":1,"lines":[{"phase":"data_wait","file":"a.py","line":8,"function":"g","source":"x","callee":null,"kind":null,"count":6}],"start_ns":5,"init_ns":5}
{"kind":"scalars","steps":[0,1],"values":{"loss":[1.0,null]},"not_finite":{"loss":[1]}}
{"kind":"probe_disabled","probe":"p","step":1,"error":"e","traceback":"t"}
{"kind":"note","step":1,"name":"n","value":{"a":[1]},"message":"m"}
{"kind":"unused_gradients","tensors":2,"parameters":9,"all_parameters":20,"modules":["net"]}
{"kind":"checkpoint_content","whole_bytes":90,"frozen_bytes":9,"buffer_bytes":9,"largest_buffer":["x",9]}
"""  # noqa: E501 - as it stands in a file


def small_records(folder, rank=0, steps=12):
    """Return a record file of some steps, with records of nearly every kind."""
    made_runs.gpu_run(folder, steps=steps, rank=rank, world_size=2)
    return Path(plugin_dir(str(folder)), f"rank{rank}.jsonl").read_bytes() + MORE


class Deep:
    """Commands and the tab's routes over a run with one damaged file beside a healthy run."""

    def __init__(self, folder):
        self.logs = Path(folder, "logs")
        for name in ("a", "b"):
            made_runs.traced_run(self.logs / name, steps=2)
            for rank in (0, 1):
                path = self.logs / name / f"plugins/gpuprof/rank{rank}.jsonl"
                path.write_bytes(small_records(Path(folder, "small", name), rank, 60))
        self.folder = Path(plugin_dir(str(self.logs / "a")))
        SnapshotBuilder().dump(str(self.folder / SNAPSHOT))
        write_sites(str(self.folder / SNAPSHOT))
        self.whole = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        never = SimpleNamespace(poll=lambda: None)
        self.client, plugin = make_client(self.logs, start=lambda kind, path: never)
        self.routes = [name for name in plugin.get_plugin_apps() if "*" not in name]
        self.caught = []
        cli._logged = lambda error, argv: self.caught.append(error) or "caught"
        replies._log.exception = lambda *_: self.caught.append(sys.exc_info()[1])

    def damage(self, rng):
        """Mend the run, and change one of its files."""
        for path in self.folder.iterdir():
            path.unlink()
        for name, content in self.whole.items():
            (self.folder / name).write_bytes(content)
        name = rng.choice(["rank0.jsonl", "rank1.jsonl", *self.whole])
        change = mutate.records if name.endswith("jsonl") else mutate.as_json
        change = CHANGES.get(Path(name).suffix, change)
        if rng.random() < 0.2 or name.endswith(".layout"):
            change = mutate.raw
        (self.folder / name).write_bytes(change(self.whole[name], rng))
        if rng.random() < 0.1:
            (self.folder / name).unlink()
            odd = rng.choice((os.mkfifo, lambda path: os.symlink("/etc/passwd", path)))
            odd(self.folder / name)

    def execution(self, rng):
        """Run a command or ask a route; what the last resort catches is raised."""
        self.command(rng) if rng.random() < 0.3 else self.ask(rng)
        if self.caught:
            raise self.caught.pop()

    def command(self, rng):
        a, b, files = str(self.logs / "a"), str(self.logs / "b"), str(self.folder)
        name = os.path.join(files, rng.choice(list(self.whole)))
        more = rng.choice(([], ["--json"], ["--markdown"], ["--verbose"], ["--session", "0"]))
        view = ["--view", rng.choice(("run", "steps", "traces", "memory", "device", "timeline"))]
        argv = rng.choice(
            [
                *(["report", a, *more], ["report", a, *view], ["report", str(self.logs)]),
                *(["compare", a, b, *more[:1]], ["compare", str(self.logs)]),
                *(["analyze", name, *more[:1]], ["analyze", name, "--stacks", "--steady"]),
            ]
        )
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
            cli.main(argv)

    def ask(self, rng):
        odd = ("9" * 5000, "\0", TRACE, "", *"-1 --5 0 1 7 2000000 aten ² a,b".split())
        names = "run base rank session first last buckets trace file groups text event from to"
        params = {name: rng.choice(odd) for name in names.split() if rng.random() < 0.15}
        params |= {"run": "a", "base": "b"} if rng.random() < 0.9 else {}
        params |= {"file": TRACE} if rng.random() < 0.5 else {}
        method = rng.choice(("GET",) * 12 + ("HEAD", "POST", "PUT", "DELETE"))
        route = ROUTE + rng.choice((*self.routes, *self.routes, *ODD_PATHS))
        answer = self.client.open(route, query_string=params, method=method)
        assert answer.status_code in (200, 400, 404, 405), answer.status
        assert method in ("GET", "HEAD") or answer.status_code in (404, 405)
        answer.get_data()
        answer.close()
