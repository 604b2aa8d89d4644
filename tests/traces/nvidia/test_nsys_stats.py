"""What `nsys stats --format csv` prints, in the layouts of its versions: made up, never pasted."""

import pytest

from lightning_gpuprof.traces.tables import NameStats, open_tables

LONG = "void gemm<(int)4, float>(float *, int)"
KERNELS = [(LONG, 3, 900_000, 200_000, 400_000), ("add", 2, 5_000, 2_000, 3_000)]
COPIES = [("[CUDA memcpy Host-to-Device]", 4, 80_000, 10_000, 30_000)]
CALLS = [("cudaLaunchKernel", 5, 40_000, 5_000, 9_000)]
RANGES = [(":train_step", 2, 2_000_000, 900_000, 1_100_000)]
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000}


def quoted(text):
    return f'"{text}"' if "," in text else text


def summary(rows, count, named, unit="ns", style=""):
    """A `*_sum` report: its columns of times are headed with their unit."""
    titles = ("Avg", "Med", "Min", "Max", "StdDev")
    times = ",".join(f"{title} ({unit})" for title in titles)
    header = f"Time (%),Total Time ({unit}),{count},{times},{'Style,' if style else ''}{named}"
    scale = UNITS[unit]

    def row(name, calls, total, low, high):
        numbers = [total / scale, calls, total / calls / scale, low / scale, low / scale]
        numbers += [high / scale, 0.0]
        text = ",".join(f"{n:.6f}".rstrip("0").rstrip(".") for n in numbers)
        return f"50.0,{text},{style}{quoted(name)}"

    return [header, *(row(*values) for values in rows)]


SIZES = ["Total (MB),Count,Avg (MB),Operation", "16.000,4,4.000,[CUDA memcpy Host-to-Device]"]


def printed(*reports, blank=True, banner=False):
    """All reports as nsys prints them one below the other."""
    lines = ["Generating SQLite file run.sqlite from run.nsys-rep"]
    for number, report in enumerate(reports):
        lines.append(f"Processing [run.sqlite] with [/opt/reports/report{number}.py]... ")
        lines += ["", " ** A Title (a_report):", ""] if banner else []
        lines += report
        lines += [""] if blank else []
    lines.append("Processing [run.sqlite] with [/opt/reports/um_sum.py]... ")
    lines.append("SKIPPED: run.sqlite does not contain CUDA Unified Memory data.")
    return "\n".join(lines) + "\n"


def expected(rows):
    return tuple(NameStats(*row) for row in rows)


KERN_SUM = summary(KERNELS, "Instances", "Name")
MEM_SUM = summary(COPIES, "Count", "Operation")
API_SUM = summary(CALLS, "Num Calls", "Name")
NVTX_SUM = summary(RANGES, "Instances", "Range", style="PushPop,")


@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("banner", [True, False])
def test_all_reports_of_one_file_are_read_kernels_first(write_text, blank, banner):
    path = write_text(
        printed(NVTX_SUM, API_SUM, KERN_SUM, MEM_SUM, SIZES, blank=blank, banner=banner)
    )

    tables = open_tables(path)

    assert (tables.kind, tables.stats) == ("kernel", expected(KERNELS))
    assert [(t.kind, t.stats) for t in tables.others] == [
        ("memory", expected(COPIES)),
        ("api", expected(CALLS)),
        ("range", expected(RANGES)),
    ]
    assert len(tables.warnings) == 1
    assert "4 reports" in tables.warnings[0]


def test_ranges_alone_are_not_taken_for_kernels(write_text):
    tables = open_tables(write_text(printed(NVTX_SUM)))

    assert (tables.kind, tables.stats) == ("range", expected(RANGES))


@pytest.mark.parametrize("unit", UNITS)
def test_every_time_unit_gives_the_same_nanoseconds(write_text, unit):
    path = write_text(printed(summary(KERNELS, "Instances", "Name", unit)))

    assert open_tables(path).stats == expected(KERNELS)


def test_the_mark_of_windows_is_no_part_of_the_table(write_text):
    path = write_text(printed(KERN_SUM).encode("utf-8-sig"))

    assert open_tables(path).stats == expected(KERNELS)
