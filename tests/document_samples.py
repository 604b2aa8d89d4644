"""Documents of many kinds of runs, for the page of their keys and for tests of every surface."""

from pathlib import Path

import msgspec
from analyzed import made_analysis
from job_traces import collective, kernel, step, write_rank
from made_records import make_session, memory, write_run
from made_runs import all_runs, gpu_run, slowing_run, worker_run
from made_trials import TRIALS
from recorded import RECORDED, lay_out, lay_out_faults

from lightning_gpuprof.analysis.job.read_job import job_files, read_job
from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.analysis.trace_tables import ANALYSIS_VERSION
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import CompileTime, CoreWait
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir, top_runs, trace_name
from lightning_gpuprof.records.lines import LineCount, OutsideLines
from lightning_gpuprof.records.schema import (
    Advice,
    Device,
    Loader,
    Note,
    OutsideSpan,
    ProbeDisabled,
    ProfilerCycle,
    Scalars,
    SyncSite,
)
from lightning_gpuprof.records.trials import Trials, write_trials
from lightning_gpuprof.report.build_file import build_file
from lightning_gpuprof.report.build_job import job_document
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.build_trace_diff import build_trace_diff
from lightning_gpuprof.report.build_trial import build_trial
from lightning_gpuprof.report.comparison import compare_runs, compare_several
from lightning_gpuprof.report.document import Document
from lightning_gpuprof.report.load import load_report

MS = 1_000_000
FILES = Path(__file__).parent / "data" / "traces"
POOLS = {"all": 2**30, "small_pool": 0, "large_pool": 2**30}


def run_documents(folder: Path) -> dict[str, Document]:
    """Return the documents of all made runs and recordings by name; `folder` is to be empty."""
    everything_run(folder / "everything")
    cpu_run(folder / "cpu")
    all_runs(folder / "made")
    worker_run(folder / "workers")
    slowing_run(folder / "slowing")
    lay_out(folder / "h100")
    documents = {}
    for path in sorted(top_runs(str(folder))):
        try:
            documents[str(Path(path).relative_to(folder))] = build_run(load_report(path))
        except RecordError:
            continue  # runs that no version, or only a newer one, can read
    return documents


def fault_documents(folder: Path) -> dict[str, Document]:
    """Return the documents of the recorded runs of the fault suite by their cause."""
    runs = lay_out_faults(folder)
    return {cause: build_run(load_report(str(run))) for cause, run in runs.items()}


def comparison_documents(folder: Path) -> dict[str, Document]:
    """Return documents of two runs, with and without a finding gone, and of three runs."""
    records = [memory(1), Scalars(steps=[0], values={"loss": [1.0]})]
    base = str(write_run(folder / "base", make_session({"forward": MS}, records=records)))
    slower = make_session({"forward": 2 * MS}, records=records, cpu_count=4)
    new = str(write_run(folder / "new", slower))
    waits = {"forward": MS, "data_wait": 2 * MS}
    loader = Loader(num_workers=0)
    mended = [
        str(write_run(folder / name, make_session(phases, loader=loader, samples=8)))
        for name, phases in (("waits", waits), ("mended", {"forward": MS}))
    ]
    traced = [str(gpu_run(folder / name, slow_ms=ms)) for name, ms in (("a", 0), ("b", 3))]
    return {
        "two runs": compare_runs(base, new).document(),
        "a finding gone": compare_runs(*mended).document(),
        "two traced runs": compare_runs(*traced).document(),
        "three runs": compare_several(base, new, new).document(),
    }


def trial_documents(folder: Path) -> dict[str, Document]:
    """Return documents of trials, with and without a change that gains."""
    return {
        "faster": build_trial(TRIALS),
        "nothing": build_trial(Trials(program="train.py", seconds=1.0)),
    }


def file_documents(folder: Path) -> dict[str, Document]:
    """Return documents of small files without a timeline, of each kind."""
    names = ("memory_snapshot.pickle", "jax_memory.prof", "nsys_stats.csv", "ncu_long.csv")
    documents = {}
    for name in names:
        document = build_file(str(FILES / name))
        assert document is not None
        documents[name] = document
    return documents


def job_sample(folder: Path) -> Document:
    """Return the document of two ranks' traces, where rank 1 computes for longer; 2 is missing."""
    for rank, late_us in enumerate((0, 500)):
        events = [step(7, 0, 2200), *kernel(10, 1000 + late_us, number=1)]
        events += collective(1010 + late_us, 600 - late_us, number=2)
        write_rank(folder, rank, events)
    files = job_files([str(folder)])
    assert files is not None
    return job_document(read_job(files, processes=1), "job")


def trace_documents(folder: Path) -> dict[str, Document]:
    """Return documents of traces that profilers of each kind wrote, and of two of them."""
    names = ("nsys.sqlite", "jax.xplane.pb", "rocprofv3_results.json.gz")
    analyses = {name: analyze_file(str(FILES / name)) for name in names}
    recorded = RECORDED / "small-batch" / "plugins" / "gpuprof" / "rank0-cycle0.pt.trace.json.gz"
    documents = {name: trace_document(analysis) for name, analysis in analyses.items()}
    documents["kineto"] = trace_document(analyze_file(str(recorded)))
    documents["ranks of a job"] = job_sample(folder / "job")
    documents["two traces"] = build_trace_diff(analyses[names[0]], analyses[names[1]])
    return documents


def everything_run(folder: Path) -> Path:
    """Write a run that has a record of every kind, and trials."""
    site = SyncSite(
        file="train.py", line=3, function="f", source="x.item()", owner="user", operation="item",
        count=1, steps_watched=1, blocked_ns=5, phase="forward",
    )  # fmt: skip
    split = {"active": POOLS, "inactive_split": POOLS}
    records = [
        memory(2**30, allocator_bytes=split, kind_bytes={"parameters": 2**20}),
        site,
        Advice(step=50, batch_size=8, suggested_batch_size=16, low=12, high=20),
        Note(step=0, name="n", message="a note"),
        CompileTime(step=0, took_ns=MS),
        OutsideLines(
            9, (LineCount("other", "train.py", 5, "f", "g()", None, None, 9),), {"other": 9}
        ),
        OutsideSpan(where="setup", start_ns=0, dur_ns=1, phase_ns={"other": 1}),
        ProbeDisabled(probe="p", step=1, error="e", traceback="t"),
        ProfilerCycle(cycle=0, first_step=1, last_step=2, trace_file="t.gz"),
        Scalars(steps=[0, 1], values={"loss": [1.0, 0.5]}),
    ]
    callbacks = [9 * MS if step == 7 else MS for step in range(100)]
    session = make_session(
        {"data_wait": 6 * MS, "callbacks": callbacks, "logging": MS // 100},
        parts={"callbacks/A": callbacks},
        flags=[1 if step == 0 else 0 for step in range(100)],
        columns={"device_dur": MS, "device/callbacks": MS, "run_ahead/callbacks": 1},
        device=Device(type="cuda"),
        loader=Loader(num_workers=0, batch_size=8),
        records=records,
        samples=8,
    )
    run = write_run(folder, session)
    write_trials(str(run), TRIALS)
    return run


CALL = {
    "call": {"name": "aten::mm", "dims": [[64, 512], [512, 512]], "dtypes": ["float", "float"]},
    "phase": "forward",
    "count": 2,
    "total_ns": 10 * MS,
    "fastest_ns": 5 * MS,
    "spread": 1.1,
    "flop_count": 2 * 64 * 512 * 512,
    "num_bytes": 1_310_720,
}
"""Half of a step of `cpu_run`, in a trace of two steps."""


def cpu_run(folder: Path, row=CALL, **options) -> Path:
    """Write a run on a CPU, in steps of 10 ms, whose analysed trace has calls of an operator."""
    trace = trace_name(0, 0, 0)
    cycle = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file=trace)
    start = {
        "device": Device(type="cpu", name="a CPU"),
        "versions": {"torch": "2.13.0"},
        "torch_threads": 8,
        "cpu_count": 2,
    }
    records = [cycle, CoreWait(1_000 * MS, MS)]
    session = make_session({"forward": 10 * MS}, records=records, **{**start, **options})
    run = write_run(folder, session)
    mark = {"name": "ProfilerStep#3", "start_ns": 0, "dur_ns": 10 * MS}
    analysis = made_analysis(
        analysis_version=ANALYSIS_VERSION, host_calls=[row], steps=[mark, mark]
    )
    path = Path(plugin_dir(str(run))) / f"{trace}{ANALYSIS_SUFFIX}"
    path.write_bytes(msgspec.json.encode(analysis))
    return run


SAMPLES = {
    "run": run_documents,
    "fault": fault_documents,
    "comparison": comparison_documents,
    "trial": trial_documents,
    "trace": trace_documents,
    "file": file_documents,
}
"""By kind of document: a function that writes what it needs into an empty folder."""
