"""Tables of Nsight Compute in the layouts that its versions and options write: made up."""

import pytest

from lightning_gpuprof.traces.tables import open_tables

KERNEL = "gemm<(int)4>(float *, int)"
LAUNCH = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
METRICS = {
    "gpu__time_duration.sum": ("nsecond", "1,250,000", 1_250_000.0),
    "launch__registers_per_thread": ("register/thread", "64", 64.0),
    "inst_executed": ("inst", "98,304", 98_304.0),
    "dram__bytes.sum": ("byte", "4,194,304", 4_194_304.0),
    "launch__func_cache_config": ("", "CachePreferNone", "CachePreferNone"),
}
WANTED = {name: (unit, value) for name, (unit, _, value) in METRICS.items()}


def row(*values):
    return ",".join(f'"{value}"' for value in values)


def place(launch):
    return [launch, 4242, "python", "127.0.0.1", KERNEL, 1, 7]


def wide(units=True):
    given = [[*place(launch), *(text for _, text, _ in METRICS.values())] for launch in (0, 1)]
    second = [[""] * len(LAUNCH) + [unit for unit, _, _ in METRICS.values()]] if units else []
    return "\n".join(row(*line) for line in ([*LAUNCH, *METRICS], *second, *given)) + "\n"


@pytest.fixture
def read(write_text):
    return lambda text, encoding="utf-8": open_tables(write_text(text.encode(encoding)))


def found(tables, launch=0):
    return {c.name: (c.unit, c.value) for c in tables.counters if c.launch == launch}


def test_every_metric_of_the_wide_form_is_read_whatever_its_name(read):
    tables = read(wide())

    assert found(tables, 0) == found(tables, 1) == WANTED
    assert {c.kernel for c in tables.counters} == {KERNEL}
    assert tables.warnings == ()


def test_a_wide_table_without_units_keeps_its_first_launch(read):
    values = {name: value for name, (_, value) in found(read(wide(units=False))).items()}

    assert values == {name: value for name, (_, value) in WANTED.items()}


def test_the_table_is_found_behind_a_programs_own_output(read):
    before = '==PROF== Connected to process 4242\n"quoted", output\nloss 0.5\n'
    between = "==PROF== Disconnected from process 4242\n"

    assert found(read(before + between + wide(), "utf-8-sig")) == WANTED


def test_a_table_of_the_graphical_tool_names_functions(read):
    header = row("ID", "Function Name", "Demangled Name", "Duration", "Compute Throughput")
    text = "\n".join([header, row("", "", "", "usecond", "%"), row(3, "gemm", KERNEL, "1.5", 80)])

    tables = read(text)

    assert [(c.launch, c.kernel) for c in tables.counters] == [(3, KERNEL)] * 2
    assert found(tables, 3) == {"Duration": ("usecond", 1.5), "Compute Throughput": ("%", 80.0)}
