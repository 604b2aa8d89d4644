"""The stand-in for msgspec says what msgspec says, of all that this package writes and reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "benchmarks" / "on_gpu" / "stand_in"

SCRIPT = """
import json, sys, msgspec
from lightning_gpuprof.records import schema
from lightning_gpuprof.records.schema import *
from lightning_gpuprof.traces.kineto.events import FullEvent, Times
def roundtrip(record):
    text = msgspec.json.encode(record)
    assert msgspec.json.decode(text, type=schema.Record) == record, record
    return text.decode()
def refused(text, kind):
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError:
        return True
    return False
event = b'{"ph":"X","cat":"kernel","name":"k","ts":1683564901548726.123,"dur":2,' \\
    b'"args":{"device":0,"Input Dims":[[2,3],[]],"Bytes":-8,"Call stack":"a;b","correlation":7}}'
read = msgspec.json.decode(event, type=FullEvent)
times = msgspec.json.decode(event, type=Times)
window = StepsWindow(first_step=0, count=2, total_ns=9, phase_total_ns={"forward": 9},
    columns={"dur_ns": Column.pack([4, 5]), "far": Column.pack([1, 2**40])})
said = [
    roundtrip(window),
    roundtrip(Note(step=1, name="a", value=2.5, message="\\u00e9")),
    roundtrip(DeviceSample(step=1, start_ns=0, end_ns=2, samples=3, throttle_frac={"heat": 0.5})),
    roundtrip(Advice(step=1, batch_size=8, details={"notes": ["x"], "n": 1})),
    msgspec.json.encode({"a": float("inf"), 3: (True, None, b"x")}).decode(),
    roundtrip(RunEnd(status="finished", wall_ns=1, steps=2)),
    [read.name, str(read.cat), read.ts, read.dur, read.args.device, bytes(read.args.dims).decode()],
    [bytes(times.ts).decode(), bytes(times.dur).decode()],
    msgspec.structs.asdict(msgspec.structs.replace(read, name="other"))["name"],
    [refused(b'{"kind":"note"}', schema.Record), refused(b"{", schema.Record),
     refused(b'{"kind":"?"}', schema.Record), refused(b'[1, NaN]', list[float])],
    msgspec.to_builtins(window, enc_hook=str),
]
sys.stdout.write(json.dumps(said))
"""

READING = """
import importlib, json, sys
from pathlib import Path
root, trace = Path(sys.argv[1]), sys.argv[2]
for side in ("analysis", "cli", "findings", "hardware", "records", "traces", "views"):
    for path in sorted((root / "lightning_gpuprof" / side).rglob("*.py")):
        if path.name != "__main__.py":
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
from lightning_gpuprof.views.documents.trace_payload import analyze_file
json.dump(analyze_file(trace), sys.stdout, sort_keys=True)
"""

pytestmark = pytest.mark.skipif(
    not STAND_IN.is_dir(), reason="the benchmarks are not part of this copy"
)


def said(*folders, script=SCRIPT, arguments=()):
    paths = os.pathsep.join(map(str, (*folders, ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def test_the_stand_in_writes_and_reads_what_msgspec_does():
    assert "stand_in" not in msgspec.__file__
    theirs, ours = said(), said(STAND_IN)
    assert ours == theirs


def test_whatever_reads_runs_and_traces_does_so_with_the_stand_in(made_runs, tmp_path):
    made_runs.two_cycle_run(tmp_path)
    [trace, *_] = sorted(map(str, tmp_path.rglob("*.pt.trace.json.gz")))
    arguments = (str(ROOT), trace)
    theirs, ours = (
        said(*folders, script=READING, arguments=arguments) for folders in ((), (STAND_IN,))
    )
    assert ours == theirs
    assert ours["critical_path"]
