import msgspec
import pytest
from pipeline_simulation import simulate
from rule_cases import EPOCH_FLAGS, MS, US, every, op, outcome, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.question_figures import suggested_workers
from lightning_gpuprof.records.facts import BatchBytes, CoreWait, IoPressure
from lightning_gpuprof.records.lines import CpuTime, HostLines, LineCount, Reads, WorkerLines
from lightning_gpuprof.records.schema import Device, Loader, StepFlag
from lightning_gpuprof.report.finding_cards import finding_card
from lightning_gpuprof.units import duration

IN_PROCESS = Loader(num_workers=0)
WAITS, LONG = {"data_wait": 6 * MS, "forward": 4 * MS}, {"data_wait": 20 * MS, "forward": 10 * MS}
TWO = "DataLoader(..., num_workers=2, persistent_workers=True)"


def test_a_long_wait_names_the_number_of_workers_that_hides_it(evaluate):
    finding = evaluate(WAITS, cpu_count=4, loader=IN_PROCESS)
    assert finding.severity is Severity.CRITICAL
    assert finding.title == "60% of each step (6.00 ms) waits for data"
    assert finding.change == TWO
    assert finding.evidence == {
        "data_wait_ns": 6 * MS,
        "data_wait_frac": 0.6,
        "step_ns": 10 * MS,
        "num_workers_count": 0,
        "cpu_count": 4,
        "instead_low_ns": 0,
        "instead_high_ns": 7_200_000,
    }
    # Best: fetching hides behind 4 ms of work. Worst: it spreads over 4 cores that train too.
    assert span(finding) == (3_500_000, 5_900_000)


def test_an_iterable_dataset_gets_one_worker_which_need_not_divide_its_reads(evaluate):
    loader = Loader(num_workers=0, dataset_kind="iterable")
    finding = evaluate(WAITS, cpu_count=4, loader=loader)
    assert "more than one worker would repeat every sample" in finding.advice
    assert finding.change == "DataLoader(..., num_workers=1, persistent_workers=True)"
    # One worker makes a batch in 6 ms at best, and hands it over.
    assert span(finding) == (3 * MS, 3_900_000)


@pytest.mark.parametrize("shares", ["the module's replay", "the model"])
def test_no_workers_for_a_dataset_that_reads_what_training_changes(analyze, shares):
    loader = Loader(num_workers=0, dataset_kind="iterable", shares=shares)
    run = analyze(WAITS, cpu_count=4, loader=loader)
    finding = outcome("data-wait", run)
    assert finding.change is None
    assert f"the dataset reads {shares} during training" in finding.advice
    assert finding.saving_ns.low == 0 < 6 * MS <= finding.saving_ns.high
    assert suggested_workers(run) == 0


def test_an_iterable_dataset_with_several_workers_must_divide_its_reads(evaluate):
    loader = Loader(num_workers=1, dataset_kind="iterable")
    finding = evaluate(WAITS, cpu_count=4, loader=loader)
    assert "divides its reads" in finding.advice
    assert "get_worker_info()" in finding.change
    assert finding.saving_ns.low == 0


@pytest.mark.parametrize(
    ("cpu_count", "host", "cores"), [(8, 8, 4), (4, 8, 4), (8, None, 8), (1, 1, 1), (8, 64, 8)]
)
def test_ranks_divide_the_cores_that_they_share(analyze, cpu_count, host, cores):
    options = {"world_size": 2, "trainer": {"num_devices": 2}, "loader": IN_PROCESS}
    run = analyze(WAITS, cpu_count=cpu_count, host_cpu_count=host, **options)
    assert run.cores == cores
    assert outcome("data-wait", run).evidence["cpu_count"] == cores


def test_a_wait_for_a_custom_sampler_names_the_sampler(evaluate):
    loader = Loader(num_workers=2, sampler="RanksEach")
    finding = evaluate(WAITS, parts={"data_wait/sampler": 4 * MS}, cpu_count=8, loader=loader)
    assert "RanksEach takes most of the wait" in finding.advice
    assert finding.change is None
    assert span(finding) == (2_880_000, 4_800_000)


def test_a_short_wait_is_silent(evaluate):
    assert evaluate({"data_wait": 400_000, "forward": 10 * MS}, loader=IN_PROCESS) is None


def test_the_start_of_an_epoch_does_not_count(evaluate):
    phases = {"data_wait": every(10, 200 * MS, 100_000), "forward": 10 * MS}
    assert evaluate(phases, flags=EPOCH_FLAGS, loader=IN_PROCESS) is None


def test_no_workers_are_proposed_if_sending_a_batch_takes_longer_than_making_it(evaluate):
    finding = evaluate({"data_wait": 90_000, "forward": 300_000}, cpu_count=8, loader=IN_PROCESS)
    assert finding.change is None
    assert "cheaper" in finding.advice
    assert finding.saving_ns.low == 0


@pytest.mark.parametrize("loader", [None, Loader()])
def test_without_a_known_loader_cheaper_batches_are_proposed(evaluate, loader):
    finding = evaluate(WAITS, cpu_count=4, loader=loader)
    assert finding.change is None
    assert span(finding) == (0, 7_200_000)


def test_no_more_workers_are_proposed_if_they_use_every_core(evaluate):
    finding = evaluate(WAITS, cpu_count=4, loader=Loader(num_workers=4))
    assert finding.change is None
    assert "4 workers already use all 4 cores" in finding.advice
    # Four fifths of the wait to six, but for the taking over of a batch that is ready.
    assert span(finding) == (3_800_000, 7_100_000)


RECEIVING = {"data_wait/sampler": 10_000, "data_wait/workers": MS}


def test_no_more_workers_are_proposed_if_the_wait_is_receiving_batches(evaluate):
    finding = evaluate(WAITS, parts=RECEIVING, cpu_count=8, loader=Loader(num_workers=2))
    assert finding.change == "DataLoader(..., num_workers=0)"
    assert finding.evidence["receiving_frac"] == pytest.approx(4.99 / 6)
    assert finding.severity is Severity.INFO
    assert finding.saving_ns.low == 0 < 6 * MS <= finding.saving_ns.high


def test_workers_on_every_core_with_batches_ready_are_too_many(evaluate):
    finding = evaluate(WAITS, parts=RECEIVING, cpu_count=2, loader=Loader(num_workers=4))
    assert finding.change == "DataLoader(..., num_workers=0)"
    assert finding.severity is Severity.CRITICAL
    assert span(finding) == (3 * MS, 7_500_000)


def test_a_wait_that_the_device_did_not_notice_is_silent(evaluate):
    columns = {"device_dur": 10 * MS, "device/data_wait": 0, "run_ahead/data_wait": 5 * MS}
    options = {"device": Device(type="cuda"), "loader": IN_PROCESS}
    assert evaluate(WAITS, columns=columns, **options) is None


GPU_IDLE = {"device_dur": 10 * MS, "device/data_wait": 6 * MS, "run_ahead/data_wait": 0}


def computing(self_ns, **options):
    trace = {"operators": [op("aten::mm", 4, self_ns)]}
    return {"cpu_count": 2, "loader": IN_PROCESS, "trace": trace, **options}


def test_no_workers_are_proposed_if_training_computes_on_every_core(analyze):
    waits = {"data_wait": 4 * MS, "forward": 6 * MS}
    run = analyze(waits, **computing(12 * MS, torch_threads=2))
    finding = outcome("data-wait", run)
    assert finding.change is None
    assert "Training uses all 2 cores" in finding.advice
    assert span(finding) == (0, 4_800_000)
    assert suggested_workers(run) == 0


@pytest.mark.parametrize(
    ("self_ns", "options"),
    [
        (MS, {"torch_threads": 2}),  # operators too short to be divided
        (6 * MS, {"torch_threads": 1}),
        (6 * MS, {"torch_threads": 2, "device": Device(type="cuda"), "columns": GPU_IDLE}),
    ],
)
def test_workers_are_proposed_if_training_leaves_them_a_core(evaluate, self_ns, options):
    finding = evaluate(WAITS, **computing(self_ns, **options))
    assert "num_workers=" in finding.change


def test_without_a_trace_workers_may_find_no_core(evaluate):
    finding = evaluate(WAITS, cpu_count=4, torch_threads=4, loader=IN_PROCESS)
    assert "num_workers=2" in finding.change
    assert span(finding) == (0, 5_900_000)


def own_code_sampled(count, whole, *, source="zlib.decompress(x)", callee=None, **options):
    """A run whose training thread was so often at the user's lines while it waited for data."""
    line = LineCount("data_wait", "t.py", 7, "unpack", source, callee, None, count)
    lines = HostLines(2 * whole, (line,), {"data_wait": whole, "forward": whole})
    return {"records": [lines], "cpu_count": 2, "loader": IN_PROCESS, **options}


SAMPLES = {"columns": {"samples": 64}}


def test_the_users_own_code_comes_before_workers_that_would_save_less(evaluate):
    finding = evaluate(LONG, **own_code_sampled(100, 100), **SAMPLES)
    assert finding.change is None
    assert "above all unpack" in finding.advice
    assert TWO in finding.advice
    # All of it and what goes with it; or but for a tenth.
    assert span(finding) == (round(0.9 * 20 * MS), 24 * MS)
    assert finding.evidence["sample_ns"] == 312_500


def test_a_wait_for_the_programs_own_worker_processes_has_its_share_in_the_title(evaluate):
    polled = own_code_sampled(60, 100, callee="multiprocessing.poll")
    finding = evaluate(LONG, **polled, **SAMPLES)
    assert finding.title.endswith("waits for data, 60% of it for own workers")
    assert "For your own worker processes, in order of effort: 1. send" in finding.advice
    assert "(multiprocessing.poll, 60%, t.py:7)" in finding.advice


@pytest.mark.parametrize(
    ("source", "callee", "random"),
    [
        ("x = x + 0.1 * np.random.randn(*x.shape)", None, True),
        ("x = x + 0.1 * torch.randn_like(x)", None, True),
        ("if self.rng.uniform() < 0.5:", None, True),
        ("x = self.turn(x, angle())", "random.uniform", True),
        ("x = self.random_access(i)", None, False),
        ("operand = table[i]", None, False),
    ],
)
def test_random_samples_are_not_to_be_computed_once(evaluate, source, callee, random):
    finding = evaluate(LONG, **own_code_sampled(100, 100, source=source, callee=callee), **SAMPLES)
    assert ("random augmentation" in finding.advice) is random
    # Half as long is the least of it: workers surely save more.
    assert (finding.change is not None) is random
    assert finding.saving_ns.low == (9 * MS if random else round(0.9 * 20 * MS))


def test_work_that_can_be_done_once_comes_before_any_number_of_workers(evaluate):
    sampled = own_code_sampled(100, 100, cpu_count=16)
    finding = evaluate(LONG, **sampled, **SAMPLES)
    assert finding.change is None
    assert f"Workers come second, to hide what is left: {TWO}" in finding.advice


@pytest.mark.parametrize(("count", "whole", "first"), [(30, 100, True), (20, 100, False)])
def test_own_code_that_surely_takes_a_fifth_comes_before_workers(evaluate, count, whole, first):
    finding = evaluate(LONG, **own_code_sampled(count, whole), **SAMPLES)
    assert (finding.change is None) is first
    assert ("30% of it is your own code, above all unpack." in finding.advice) is first


@pytest.mark.parametrize(("count", "whole"), [(4, 100), (9, 9)])
def test_code_with_few_samples_does_not_come_before_workers(evaluate, count, whole):
    finding = evaluate(WAITS, **own_code_sampled(count, whole), **SAMPLES)
    assert finding.change == TWO


def test_many_cheap_samples_have_no_sure_saving(evaluate):
    waits = {"data_wait": MS // 4, "forward": MS}
    finding = evaluate(waits, **own_code_sampled(100, 100), **SAMPLES)
    assert finding.saving_ns.low == 0
    assert "index whole batches" in finding.advice


def worked(count, work=100, waiting=0, *, source="total += k", callee=None):
    """Samples of two workers, so many of them at a line of the user's own."""
    line = LineCount("data_wait", "t.py", 7, "unpack", source, callee, None, count)
    return [WorkerLines(2, work, waiting, 0, (line,))]


CROWDED = {"cpu_count": 2, "loader": Loader(num_workers=2)}


def test_the_line_that_workers_spend_their_time_at_is_named_with_its_cost(analyze, evaluate):
    finding = evaluate(WAITS, records=worked(90, waiting=25), **CROWDED)
    assert "Most of it is your own code, above all unpack." in finding.advice
    assert finding.evidence["worker_samples_count"] == 125
    assert finding.evidence["worker_batch_ns"] == 16 * MS
    assert finding.evidence["worker_waiting_frac"] == 0.2
    run = analyze(WAITS, records=worked(90), **CROWDED)
    named = with_lines(outcome("data-wait", run), run).places[1:]
    assert [(place.file, place.line) for place in named] == [("t.py", 7)]


def test_what_the_lines_of_workers_do_is_what_can_be_saved(evaluate):
    waits = {"data_wait": 9 * MS, "forward": MS}
    plain, own, half = (
        evaluate(waits, records=records, **CROWDED).saving_ns.low
        for records in ([], worked(100), worked(60))
    )
    # Without samples a batch is taken to be made in half the time: 5 of 10 ms.
    assert plain == 5 * MS
    # All but a tenth of it is more than four fifths of the wait, as sure as a saving can be, but
    # for taking over a batch that is ready.
    assert own == 6_200_000
    # Of three fifths, as much as is surely seen.
    assert half == pytest.approx(0.9 * (0.6 - 2 * (0.6 * 0.4 / 100) ** 0.5) * 10 * MS, rel=1e-6)


def simulated(today, count=90):
    """The phases and options of a run that measured a simulated pipeline of two workers."""
    empty, busy = round(today.empty_ns), round(today.step_ns - today.empty_ns)
    work = round(100 * today.made_ns / (2 * today.step_ns))
    waits = CoreWait(wall_ns=10_000, queued_ns=round(10_000 * today.queued_ns / today.step_ns))
    return {"data_wait": empty, "forward": busy}, {
        "parts": {"data_wait/workers": empty},
        "records": [*worked(work, work, waiting=100 - work), waits],
        **CROWDED,
    }


def test_parsing_that_keeps_the_cores_busy_costs_more_than_the_wait(analyze):
    today = simulate(train_ns=3 * MS, make_ns=20 * MS, workers=2, cores=2)
    phases, options = simulated(today)
    run = analyze(phases, **options)
    finding = outcome("data-wait", run)
    saved_ns = today.step_ns - simulate(train_ns=3 * MS, make_ns=1, workers=2, cores=2).step_ns
    assert finding.saving_ns.low < saved_ns <= 1.02 * finding.saving_ns.high
    assert finding.saving_ns.high > finding.cause_ns.high == round(today.empty_ns)
    sentence = finding_card(finding, run).saving.sentence
    assert f"; the cause itself takes {duration(round(today.empty_ns))}" in sentence


def test_waiting_for_a_core_is_not_receiving_where_own_code_keeps_the_cores_busy(evaluate):
    """Most of the wait is behind a ready batch, for want of a core: workers stay."""
    busy = CoreWait(wall_ns=100, queued_ns=55)
    parts = {"data_wait/workers": MS // 2}
    finding = evaluate(WAITS, parts=parts, records=[*worked(90), busy], **CROWDED)
    assert finding.change is None
    assert "Most of it is your own code, above all unpack." in finding.advice


def test_an_operation_of_workers_has_its_advice(evaluate):
    finding = evaluate(WAITS, records=worked(80, callee="json.loads"), **CROWDED)
    assert "for every sample (json.loads, 80%, t.py:7)" in finding.advice


def test_busy_workers_stay_and_idle_workers_go(evaluate):
    finding = evaluate(WAITS, parts=RECEIVING, records=worked(90), **CROWDED)
    assert finding.change is None
    assert "use all 2 cores" in finding.advice
    idle = worked(9, 10, 190)
    finding = evaluate(WAITS, parts=RECEIVING, records=idle, **CROWDED)
    assert finding.change == "DataLoader(..., num_workers=0)"


JPEG = LineCount("data_wait", "t.py", 7, "decode", "file.read()", None, None, 90)
# Each of 2 workers read 3 MB in 30 calls while 10 steps took 10 ms each.
READ = Reads(2 * 100 * MS, 6_000_000, 60)
STORED = {"blocked": 120, "filesystem": "nfs4", "read": READ}


def test_workers_that_wait_for_storage_may_be_more_than_there_are_cores(evaluate):
    lines = WorkerLines(2, 160, 40, 0, (JPEG,), **STORED)
    finding = evaluate(WAITS, **CROWDED, records=[lines])
    assert "wait for storage (nfs4, 586 KiB in 6 reads per batch):" in finding.advice
    # Five make a batch in 4 ms, as long as the rest of the step.
    assert finding.change == "DataLoader(..., num_workers=5, persistent_workers=True)"
    assert finding.evidence["storage_frac"] == 0.75
    assert finding.evidence["batch_read_bytes"] == 600_000
    assert finding.evidence["batch_reads_count"] == 6
    computing = WorkerLines(2, 160, 40, 0, (JPEG,), **(STORED | {"blocked": 20}))
    assert "storage" not in evaluate(WAITS, **CROWDED, records=[computing]).advice
    # Or the training process, where it makes them.
    host = HostLines(200, (JPEG,), {"data_wait": 120}, blocked=90)
    pressure = IoPressure(wall_ns=1_000, stalled_ns=400)
    finding = evaluate(WAITS, loader=IN_PROCESS, records=[host, pressure])
    assert "wait for storage:" in finding.advice
    assert finding.evidence["io_pressure_frac"] == 0.4


def test_validation_counts_if_it_makes_its_batches_at_the_same_line(analyze, evaluate):
    slow = LineCount("data_wait", "t.py", 7, "decode", "f(x)", "json.loads", "python", 60)
    run = {
        "phases": {**WAITS, "forward": 2 * MS, "validation": every(10, 30 * MS, first=9)},
        "parts": {"validation/next batches": every(10, 24 * MS, first=9)},
        "flags": every(10, StepFlag.VALIDATION, first=9),
        "cpu_count": 1,
        "loader": IN_PROCESS,
        "samples": 8,
    }
    count = {"data_wait": 60, "validation": 20}
    other = msgspec.structs.replace(slow, phase="validation", line=9, count=9)
    for line, also_ns in ((msgspec.structs.replace(other, line=7), 2_400_000), (other, 0)):
        lines = HostLines(200, (slow, line), count)
        finding = evaluate(**run, records=[lines])
        # 6 ms of each step of 11 ms, and 24 ms of validation at every tenth.
        assert finding.cause_ns.high == 6 * MS + also_ns
        assert ("validation too" in finding.title) == (also_ns > 0)
        rest = outcome("frequent-validation", analyze(**run, records=[lines]))
        assert rest.saving_ns.high == pytest.approx(1.2 * 0.8 * (3 * MS - also_ns), rel=0.25)


PARSING = LineCount(
    "data_wait",
    "data.py",
    9,
    "parse",
    "json.loads(x)",
    "json.loads",
    "python",
    70,
    entry="Corpus.get",
)
COLLATING = LineCount(
    "data_wait", "data.py", 20, "pad", "torch.stack(x)", None, "torch", 20, entry="pad"
)


def test_the_method_that_the_loader_calls_is_named_with_its_class(evaluate):
    lines = HostLines(100, (PARSING, COLLATING), {"data_wait": 100})
    finding = evaluate(WAITS, cpu_count=1, loader=IN_PROCESS, records=[lines])
    assert finding.title.endswith("waits for data, mostly in Corpus.get")
    assert "above all Corpus.get and, in it, parse" in finding.advice


def test_before_python_3_11_the_class_is_the_datasets(evaluate):
    line = msgspec.structs.replace(PARSING, entry=None, function="__getitem__")
    lines = HostLines(100, (line,), {"data_wait": 100})
    loader = Loader(num_workers=0, dataset="Corpus")
    finding = evaluate(WAITS, cpu_count=1, loader=loader, records=[lines])
    assert finding.title.endswith("mostly in Corpus.__getitem__")


def test_rows_in_memory_are_indexed_by_the_batch_and_need_no_workers(evaluate):
    loader = Loader(num_workers=0, batch_size=32, in_memory=True)
    records = [BatchBytes(4_000)]
    finding = evaluate(WAITS, cpu_count=4, loader=loader, samples=32, records=records)
    assert "num_workers" not in finding.advice + finding.change
    assert "__getitems__" in finding.change
    # A fifth less than the wait, less 700 ns for each row and 0.35 ns for each byte.
    assert span(finding) == (4_800_000 - 22_400 - 1_400, 7_200_000)


def test_of_an_iterable_that_is_no_loader_nothing_is_said_about_workers(evaluate):
    finding = evaluate(WAITS, cpu_count=4)
    assert "orkers" not in finding.advice
    assert "it is no DataLoader" in finding.advice
    assert finding.change is None


def test_workers_of_a_single_evaluation_need_not_persist(evaluate):
    finding = evaluate(WAITS, cpu_count=4, loader=IN_PROCESS, stage="predict")
    assert finding.change == "DataLoader(..., num_workers=2)"


def test_a_single_sample_of_a_worker_does_not_show_that_batches_are_made_fast(evaluate):
    """In 1 of 80 samples the worker made batches: that may as well have been 5."""
    parts = {"data_wait/sampler": 10_000, "data_wait/workers": MS // 20}
    options = {"parts": parts, "cpu_count": 4, "loader": Loader(num_workers=1)}
    waits = {"data_wait": MS, "forward": 9 * MS}
    few = evaluate(waits, records=worked(1, 1, 79), **options)
    many = evaluate(waits, records=worked(10, 10, 790), **options)
    assert few.severity is Severity.INFO
    assert few.saving_ns.low < many.saving_ns.low


def slept(used, queued):
    """Two workers of which 100 of 200 samples are work, in a second each."""
    cpu = CpuTime(wall_ns=2_000 * MS, used_ns=used * MS, queued_ns=queued * MS)
    line = LineCount("data_wait", "t.py", 7, "fetch", "time.sleep(x)", "time.sleep", "python", 100)
    return [WorkerLines(2, 100, 100, 0, (line,), cpu=cpu)]


def test_workers_that_sleep_may_be_more_than_there_are_cores(evaluate):
    finding = evaluate(WAITS, records=slept(100, 50), **CROWDED)
    assert "Workers wait as they make batches" in finding.advice
    assert "already use all" not in finding.advice
    assert finding.evidence["worker_asleep_frac"] == 0.85
    assert finding.change == "DataLoader(..., num_workers=5, persistent_workers=True)"


@pytest.mark.parametrize(("used", "queued"), [(900, 0), (300, 500)])
def test_workers_that_compute_or_wait_for_a_core_do_not_sleep(evaluate, used, queued):
    finding = evaluate(WAITS, records=slept(used, queued), **CROWDED)
    assert "2 workers already use all 2 cores" in finding.advice


def test_single_late_batches_are_let_pass(evaluate):
    phases = {"data_wait": every(10, 60 * MS, 100 * US, first=4), "forward": 4 * MS}
    assert "in_order=False" in evaluate(phases, records=slept(100, 50), **CROWDED).advice
    assert "in_order=False" not in evaluate(WAITS, records=slept(100, 50), **CROWDED).advice
