import io
import os
import re
from dataclasses import replace

import pytest
from made_records import memory
from msgspec import structs

from lightning_gpuprof.analysis.run.device_time import DevicePhase, DeviceTime
from lightning_gpuprof.findings.model import Place, Range, Severity, When
from lightning_gpuprof.records.device_marks import StepState
from lightning_gpuprof.records.lines import (
    CodePlace,
    CompileEvent,
    HostLines,
    LineCount,
    WorkerLines,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import (
    Advice,
    AdviceDetails,
    Device,
    DeviceSample,
    Loader,
    Note,
    OutsideSpan,
    ProbeDisabled,
    ProfilerCycle,
    StepFlag,
)
from lightning_gpuprof.report import console
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.run_report import RunReport
from lightning_gpuprof.report.terminal import WIDTH


def render(report, **options):
    return console.render(build_run(report), **options)


def render_for(report, stream):
    return console.render_for(build_run(report), stream)


MS = 1_000_000
GIB = 2**30
PHASES = {"data_wait": 6 * MS, "forward": 3 * MS, "callbacks": 1 * MS}


@pytest.fixture
def report(make_session, write_run):
    """Load the report of a run given as to `make_session`."""

    def load(phases=PHASES, **options):
        return load_report(write_run(make_session(phases, **options)))

    return load


@pytest.fixture
def waiting(report):
    """The report of a run that waits for data."""
    return report(loader=Loader(num_workers=0))


def with_marks(report, marks):
    """The report of a run whose host-bound steps have these times on the device."""
    dur = report.results.steps.dur
    time = DeviceTime(100, dur, marks, (), 5_000, {StepState.HOST_BOUND: 1.0})
    device = replace(report.results.device, time=time)
    return replace(report, results=replace(report.results, device=device))


def test_a_report_has_as_many_sections_as_a_screen_has_room_for_and_names_the_others(waiting):
    whole = render(waiting)
    short = render(waiting, most_lines=20)
    (named,) = (line for line in short.splitlines() if line.startswith("--verbose also shows: "))
    assert "step time" in named
    assert "STEP TIME" in whole
    assert "STEP TIME" not in short
    assert short.splitlines()[-3:] == whole.splitlines()[-3:]
    assert render(waiting, most_lines=500) == whole
    assert render(waiting, verbose=True, most_lines=20) == render(waiting, verbose=True)


def test_the_first_screen_says_the_limit_then_the_change_then_where_the_step_goes(report):
    text = render(report(loader=Loader(num_workers=0), parts={"callbacks/GradNorm": MS}))
    places = [
        text.index(words)
        for words in (
            "fit, finished, 100 steps in 1.00 s",
            "Step time  10.0 ms (mean of 100 steady steps; median 10.0 ms)",
            "No GPU: 30% of a step is work on the batch, 60% waiting for data, 10% callbacks",
            "FIX FIRST\n  60% of each step (6.00 ms) waits for data",
            "DataLoader(..., num_workers=2, persistent_workers=True)",
            "gain    a step of 5.3 ms (4.1 to 6.5 ms) instead of 10.0 ms, not tested",
            "WHERE A STEP GOES (mean per steady step, host clock: 10.0 ms)",
            "Data wait",
            "GradNorm",
            "2. [warning] GradNorm takes 1.00 ms of each step (10%)",
            "mean 10.0 ms, median 10.0 ms",
        )
    ]
    assert places == sorted(places)


def test_of_a_gpu_without_marks_or_trace_the_headline_says_that_it_is_not_known(report):
    lines = render(report(device=Device(type="cuda"))).splitlines()
    assert lines[2] == "GPU busy   - (not measured: that needs device marks or a trace)"


def test_of_a_long_finding_and_many_phases_the_first_screen_keeps_the_largest(report):
    few = {"zero_grad": MS, "checkpoint": MS, "logging": MS, "other": MS, "backward": 2 * MS}
    parts = {f"callbacks/Callback{i}": MS // 10 for i in range(9)}
    loaded = report(PHASES | few, loader=Loader(num_workers=0), parts=parts)
    long = replace(loaded.findings[0], advice="Do less of it. " * 38, change="a = 1\nb = 2")
    lines = render(replace(loaded, findings=(long,)), width=80).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("WHERE A"))) + 1 :]
    assert [line.split()[0] for line in table[:4]] == ["Data", "Forward", "Backward", "5"]
    assert len(lines) - len(table) + 4 <= 24
    assert "5 smaller  5.00 ms" in " ".join(table[:4])


def test_a_place_that_the_title_names_is_not_said_again(report):
    loaded = report(parts={"callbacks/GradNorm": MS})
    named = next(finding for finding in loaded.findings if finding.id == "slow-callback")
    elsewhere = replace(named, places=(Place(name="LRFinder"),))
    shown = render(replace(loaded, findings=(named,)), verbose=True)
    assert re.search(r"^ +where  +", shown, re.M) is None
    shown = render(replace(loaded, findings=(elsewhere,)), verbose=True)
    assert re.search(r"^ +where  +LRFinder$", shown, re.M)


def test_a_saving_that_may_be_nothing_is_said_to_be_at_most_so_much(report):
    loaded = report(parts={"callbacks/GradNorm": MS})
    unsure = replace(loaded.findings[0], saving_ns=Range(low=0, high=MS))
    text = render(replace(loaded, findings=(unsure, unsure)))
    assert "saves up to 1.0 ms per step (up to 10%)" in text


def test_verbose_has_the_plan_and_the_questions(waiting):
    lines = [" ".join(line.split()) for line in render(waiting, verbose=True).splitlines()]
    plan = lines[lines.index("WHAT TO CHANGE (as ranked above)") + 2]
    assert plan.startswith(f"quick {waiting.findings[0].id}")
    assert "First look at the finding data-wait." in lines
    assert any(line.startswith("look") and "Look at the finding" in line for line in lines)
    assert not {"WHAT TO CHANGE", "WHERE TO LOOK"} & set(render(waiting).splitlines())


def test_it_ends_with_the_command_that_compares_and_the_address_of_the_runs_tab(waiting):
    folder, name = waiting.run.rsplit("/", 1)
    assert render(waiting).splitlines()[-3:] == [
        f"  lightning-gpuprof compare {waiting.run} NEW_RUN",
        f"  tensorboard --logdir {folder}",
        f"  http://localhost:6006/#gpuprof&p.gpuprof.run={name}",
    ]
    assert (
        render(replace(waiting, run=".")).rstrip().endswith(f"run={os.path.basename(os.getcwd())}")
    )


def test_the_change_is_said_in_words_and_as_code(waiting):
    first = replace(waiting.findings[0], advice="Pad less.", change="width = 3")
    assert "change  Pad less.\n          width = 3\n" in render(replace(waiting, findings=[first]))


def test_what_is_said_first_is_not_said_twice(waiting):
    advice = "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert render(waiting).count(advice) == 1
    assert render(waiting, verbose=True).count(advice) == 2


@pytest.mark.parametrize("wording", ["data wait: 60%", "skipped: training did not run on a GPU"])
def test_evidence_and_why_rules_could_not_judge_are_for_verbose(waiting, wording):
    assert wording not in render(waiting)
    assert wording in render(waiting, verbose=True)


def test_an_info_finding_says_its_saving_or_what_to_do_where_it_has_none(waiting):
    small = replace(
        waiting.findings[0], id="slow-logging", severity=Severity.INFO, advice="Do less."
    )
    none = replace(
        small, id="slow-python", saving_ns=Range(low=0, high=0), advice="Look elsewhere."
    )
    text = render(replace(waiting, findings=[small, none]))
    assert "Do less." not in text.split("NOT WORTH")[0]
    assert "slow-python  Look elsewhere." in text
    assert "--verbose shows the changes" in text


def test_short_phases_are_one_row_unless_verbose(report):
    loaded = report(PHASES | {"zero_grad": MS // 100, "checkpoint": MS // 50})
    assert "2 smaller  30.0 µs   0.3%" in render(loaded)
    assert "Zero grad" not in render(loaded)
    assert "Zero grad" in render(loaded, verbose=True)


def test_a_phase_that_is_short_on_the_host_alone_keeps_its_row(report):
    loaded = report(PHASES | {"zero_grad": MS // 100, "checkpoint": MS // 50})
    marks = {
        phase: DevicePhase(phase, mean_ns, mean_ns, None, mean_ns / (10 * MS))
        for phase, mean_ns in {Phase.ZERO_GRAD: 3 * MS, Phase.CHECKPOINT: MS // 100}.items()
    }
    text = render(with_marks(loaded, marks))
    assert re.search(r"Zero grad +10.0 µs +0.1% +3.00 ms", text)
    assert re.search(r"1 smaller +20.0 µs +0.2% +10.0 µs", text)
    assert re.search(r"Host +Device, including idle\n", text)
    assert "idle too" not in render(loaded)


def test_a_kernel_is_named_without_its_type_and_parameters(waiting):
    kernel = "std::enable_if<!(false), void>::type gemv::kernel<int, 4>(gemv::Params<int, float>)"
    first = waiting.findings[0]
    second = replace(first, places=(Place(kernel=kernel),))
    text = render(replace(waiting, findings=[first, second]))
    assert re.search(r"where +gemv::kernel<int, 4>\n", text)


def test_a_saving_between_steps_is_not_taken_from_the_step(waiting):
    first = replace(waiting.findings[0], saving_ns=Range(0, 30 * MS), when=When.BETWEEN)
    text = render(replace(waiting, findings=[first]))
    assert "up to 30 ms less per step on average (a steady step: 10.0 ms)" in text


def test_no_line_is_wider_than_a_terminal_of_100_columns(report):
    name = "AVeryLongCallbackNameThatSomebodyGenerated" * 2
    loaded = report(parts={f"callbacks/{name}": MS}, loader=Loader(num_workers=0))
    folder = os.path.dirname(loaded.run)  # as long as it is
    lines = [line for line in render(loaded, verbose=True).splitlines() if folder not in line]
    assert max(map(len, lines)) <= WIDTH


def test_a_name_in_brackets_is_text_and_no_markup(report):
    text = render(report(parts={"callbacks/[bold]Mine[/bold]": MS}))
    assert "[bold]Mine[/bold] takes 1.00 ms" in text


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_width_follows_the_terminal(report, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    loaded = report(loader=Loader(num_workers=0), parts={"callbacks/GradNorm": MS})
    lines = render_for(loaded, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")).splitlines()
    folder = os.path.dirname(loaded.run)
    wrapped = [line for line in lines if folder not in line and "http" not in line]
    assert columns - 15 < max(map(len, wrapped)) <= columns


def test_a_pipe_gets_no_colours_and_an_ascii_terminal_no_bars(report):
    pipe = render_for(report(), io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert "\x1b" not in pipe
    assert pipe.isascii()
    assert "######" in pipe
    assert "\x1b" in render(report(), color=True)


def test_memory_on_a_gpu_is_shown_and_never_invented(report):
    sizes = {"allocated_bytes": GIB, "reserved_bytes": 2 * GIB, "total_bytes": 8 * GIB}
    seen = memory(4 * GIB, **sizes)
    text = render(report(device=Device(type="cuda"), records=[seen]), verbose=True)
    assert "allocated 1.00 GiB, reserved 2.00 GiB, peak 4.00 GiB of 8.00 GiB (50%)" in text
    assert "THE ALLOCATOR" not in text
    pools = {"all": GIB, "small_pool": 0, "large_pool": GIB}
    split = {"active": pools, "inactive_split": pools}
    seen = structs.replace(seen, allocator_bytes=split, alloc_retries=2, ooms=0)
    document = build_run(report(device=Device(type="cuda"), records=[seen]))
    found = RunReport(document, verbose=True)
    text = str(found)
    line = " ".join(text.split())
    assert "fragmented 50%, allocation retries 2, times out of memory 0" in line
    assert "inactive split  1.00 GiB         0 B    1.00 GiB" in text
    assert found.memory["fragmented_frac"] == 0.5


def test_what_the_driver_said_of_the_device_is_shown_as_far_as_it_did(report):
    seen = DeviceSample(step=49, start_ns=0, end_ns=1, samples=9, busy_frac=0.25)
    text = render(report(device=Device(type="cuda"), records=[seen]))
    assert "a kernel ran in 25% of the time (its driver, 9 readings)" in text
    once = render(report(device=Device(type="cuda"), records=[structs.replace(seen, samples=1)]))
    assert "(its driver, 1 reading)" in once
    full = structs.replace(
        seen, max_power_mw=122_300, power_limit_mw=700_000, max_sm_clock_mhz=1_980
    )
    text = " ".join(render(report(device=Device(type="cuda"), records=[full])).split())
    assert "25% of the time, up to 1,980 MHz, up to 122 W of 700 W (its driver" in text


def test_the_advised_batch_size_is_shown_or_why_there_is_none(report):
    details = AdviceDetails(accumulate_grad_batches=2, learning_rate="leave the learning rate")
    advice = Advice(
        step=50, batch_size=16, suggested_batch_size=56, low=47, high=64, details=details
    )
    gpu = Device(type="cuda")
    text = " ".join(render(report(records=[advice], device=gpu)).split())
    assert "16 now, 56 advised (47 to 64); accumulate_grad_batches=2; leave the learning" in text
    withheld = Advice(step=50, batch_size=16, reason="CUDA graphs keep memory")
    text = render(report(records=[withheld], device=gpu))
    assert "16 now, no suggestion: CUDA graphs" in text


def test_without_a_gpu_nothing_is_said_of_memory_or_the_batch_size(report):
    advice = Advice(step=50, batch_size=16, suggested_batch_size=56)
    loaded = report({"forward": MS, "backward": MS}, records=[advice])
    assert re.search("memory|batch size|larger batch", render(loaded)) is None
    verbose = render(loaded, verbose=True)
    assert re.search("device('s)? memory|batch size|larger batch|vram", verbose, re.I) is None


def test_the_usual_advice_that_would_gain_nothing_is_named_with_its_figure(report):
    small = {"optimizer_step": MS // 20, "logging": MS // 50, "host_to_device": MS // 100}
    text = render(report(PHASES | small))
    assert (
        "NOT WORTH IT HERE (of a step, at most)\n  fused optimizer 0.5%, less logging 0.2%\n"
        in (text)
    )
    loaded = report(PHASES | small, device=Device(type="cuda"))
    assert "HERE (of a step, at most)\n  less logging 0.2%\n" in render(
        loaded
    )  # of work, the host's
    marks = {
        phase: DevicePhase(phase, 1, 1, None, frac)
        for phase, frac in {Phase.HOST_TO_DEVICE: 0.004, Phase.OPTIMIZER_STEP: 0.2}.items()
    }
    text = render(with_marks(loaded, marks))
    assert "HERE (of a step, at most)\n  pinned memory 0.4%, less logging 0.2%\n" in text
    assert "NOT WORTH IT" not in render(report(PHASES | small, steps=4, flags=StepFlag.WARMUP))
    assert "NOT WORTH IT" not in render(report())


def test_what_happened_outside_of_steps_and_what_failed_is_said(report):
    records = [
        OutsideSpan(where="epoch_end", start_ns=0, dur_ns=2 * MS, phase_ns={"other": 2 * MS}),
        ProbeDisabled(probe="DeferredLoss", step=7, error="ValueError: no", traceback=""),
    ]
    text = render(report(records=records, wall_ns=1_002 * MS))
    assert "2.00 ms: epoch_end 2.00 ms" in text
    assert "100% of 1.00 s wall time is accounted for" in text
    assert "DeferredLoss failed at step 7: ValueError: no" in text


def test_findings_in_warm_up_steps_alone_propose_no_change(report):
    brief = render(report(steps=4, flags=StepFlag.WARMUP))
    assert "VERDICT\n  Too short to say what to change\n" in brief
    assert "FIX FIRST" not in brief
    assert "WHERE A STEP GOES (mean per step, including warm-up, host clock: 10.0 ms)" in brief
    assert "WHERE A STEP GOES (mean per steady step, host clock: 10.0 ms)" in render(report())


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
@pytest.mark.parametrize(
    ("options", "wording"),
    [
        ({"steps": 4, "flags": StepFlag.WARMUP}, "Only warm-up steps were recorded, too few to"),
        ({"steps": 3}, "3 steady steps are too few to judge."),
        ({"steps": 0}, "No batch was recorded"),
        ({}, "Nothing here holds "),
    ],
)
def test_of_a_session_that_trains_nothing_nothing_is_said_of_it(report, stage, options, wording):
    loaded = report({"forward": MS}, stage=stage, **options)
    text = render(loaded).replace(os.path.dirname(loaded.run), "RUN")
    assert wording in text
    assert "train" not in text.lower()


def test_a_run_of_a_part_that_times_no_steps_says_what_would(report):
    text = render(report({}, steps=0, timer=""))
    assert "neither GpuProfCallback nor PhaseTimer was among the callbacks" in text


def test_what_may_save_nothing_is_not_the_one_change_to_make(report):
    phases = {"data_wait": MS // 2, "forward": 7 * MS}
    text = render(report(phases, loader=Loader(num_workers=0), cpu_count=1))
    assert "[info]" in text
    assert "FIX FIRST" not in text
    assert "Nothing here holds training back much" in text
    assert "Where to look next: the model's forward" in " ".join(text.split())


def test_what_reading_a_value_costs_on_a_cpu_is_said(report):
    text = " ".join(render(report(device=Device(type="cpu"))).split())
    assert "host syncs none: on a CPU, reading a value (.item()) does not wait" in text
    assert "host syncs" not in render(report(device=Device(type="cuda")))


def test_steps_timed_without_phases_are_called_so(report):
    rest = OutsideSpan(
        where="unmarked_steps", start_ns=0, dur_ns=50 * MS, phase_ns={"other": 50 * MS}, steps=5
    )
    text = render(report(records=[rest]))
    assert "steps timed without phases 50.0 ms" in " ".join(text.split())
    assert "(100 timed by phase)" in text
    assert "unmarked" not in text


def test_of_many_findings_the_last_are_titles_alone(waiting):
    waiting = replace(waiting, findings=waiting.findings[:1] * 8)
    text = render(waiting)
    assert text.count("\n    data-wait  saves") == 5  # all that are told in more than a title
    assert " 8. [critical] 60% of each step" in text
    assert "--verbose shows the changes of all findings." in text
    assert render(waiting, verbose=True).count("\n    data-wait  saves") == 8


def test_a_run_without_the_profiler_says_that_it_was_switched_off(report):
    assert re.search(r"traces +none: trace=False", render(report(config={"trace": False})))


def test_why_another_profiler_left_no_trace_is_said(report):
    busy = Note(step=4, name="profiler-busy", message="A torch profiler is at work.")
    assert "none: A torch profiler is at work." in render(report(records=[busy]))


def test_the_lines_of_the_program_are_told_whatever_the_rules_know(report):
    lines = (
        LineCount("forward", "mine.py", 7, "forward", "x = slow(x)", None, None, 60),
        LineCount("forward", "mine.py", 7, "forward", "x = slow(x)", "numpy.sum", "python", 20),
        LineCount("forward", "mine.py", 9, "forward", "", None, None, 4),
    )
    seen = HostLines(200, lines, {"forward": 100})
    text = render(report(records=[seen]))
    table = text[text.index("AT WHICH LINES") : text.index("THE REST")]
    # 80 of 100 samples of 3 ms, give or take two standard errors of 4 %.
    assert "mine.py:7 `x = slow(x)`  Forward  22 to 26%  2.2 to 2.6 ms" in table
    assert "mine.py:9" not in table  # four samples say nothing


def test_the_lines_of_worker_processes_have_a_table_of_their_own(report):
    line = LineCount("data_wait", "data.py", 7, "decode", "total += k", None, None, 60)
    few = LineCount("data_wait", "data.py", 9, "decode", "", None, None, 1)
    seen = WorkerLines(2, 75, 25, 0, (line, few))
    text = render(report(records=[seen], loader=Loader(num_workers=2)))
    table = text[text.index("IN THE LOADER'S WORKERS") : text.index("THE REST")]
    assert "samples 100, worker processes 2, waiting for work 25%" in table
    # Two workers for 10 ms a step, at work in three quarters: 15 ms a batch.
    assert "data.py:7 `total += k`  71 to 89%    12.0 ms" in table
    assert "data.py:9" not in table
    assert "IN THE LOADER'S WORKERS" not in render(report())


@pytest.mark.parametrize(
    ("quiet", "device", "wording"),
    [
        (False, "cpu", "also with checkpoint 1.00 ms, callbacks 4.00 ms"),
        (True, "cpu", "without checkpoint 1.00 ms, callbacks 4.00 ms"),
        (True, "cuda", "without checkpoint 1.00 ms; also with callbacks 4.00 ms"),
    ],
)
def test_what_a_window_held_beside_training_and_graph_breaks_are_told(
    report, quiet, device, wording
):
    cycle = ProfilerCycle(cycle=0, first_step=8, last_step=11, trace_file="t.gz", quiet=quiet)
    between = {"start_ns": 95 * MS, "dur_ns": MS, "phase_ns": {"checkpoint": MS}}
    event = CompileEvent(
        "graph break", "print is not traced", "", CodePlace("t.py", 7, "f", "print(x)")
    )
    records = [cycle, OutsideSpan(where="epoch_end", **between), event]
    text = render(report(records=records, device=Device(type=device)))
    text = re.sub(r"\s+", " ", text)
    assert f"t.gz ({wording})" in text
    assert "graph break t.py:7 `print(x)` print is not traced" in text
