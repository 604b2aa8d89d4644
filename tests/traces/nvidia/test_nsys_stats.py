"""What `nsys stats --format csv` prints, in the layouts of its versions: made up, never pasted."""

import pytest

from lightning_gpuprof.traces import find_reader, open_timeline
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


def gpu_trace(unit="ns", device="NVIDIA A100 (0)", size="MB"):
    start, duration = f"Start ({unit})", f"Duration ({unit})"
    sizes = f"StcSMem ({size}),DymSMem ({size}),Bytes ({size}),Throughput ({size}/s)"
    return [
        f"{start},{duration},CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,{sizes},"
        "SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name",
        f"1000,200,11,,,,,,,,,,4.000,9.5,Pageable,Device,{device},1,,7,{COPIES[0][0]}",
        f'1500,300,12,4,1,1,64,1,1,16,0.000,0.000,,,,,{device},1,,7,"""{LONG}"""',
        f"1900,50,13,,,,,,,,,,0.001,1,Device,,{device},1,,7,[CUDA memset]",
    ]


API_TRACE = [
    "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name",
    "900,40,cudaMemcpyAsync_v3020,0,11,41,42,20,python",
    "1400,30,cudaLaunchKernel_v7000,0,12,41,42,20,python",
]
PUSH_POP = [
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,"
    "RangeId,ParentId,RangeStack,NameTree",
    "800,2400,1600,0,1600,:train_step,41,42,0,0,1,,:1,:train_step",
]
KERN_EXEC = [
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),"
    "Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name",
    "1400,30,1430,70,1500,300,400,41,42,0,cudaLaunchKernel_v7000,"
    f'   4    1    1,  64    1    1,"{LONG}"',
]
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


@pytest.fixture
def write(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "stats.csv"
        path.write_text(text, encoding=encoding)
        return str(path)

    return write


def expected(rows):
    return tuple(NameStats(*row) for row in rows)


KERN_SUM = summary(KERNELS, "Instances", "Name")
MEM_SUM = summary(COPIES, "Count", "Operation")
API_SUM = summary(CALLS, "Num Calls", "Name")
NVTX_SUM = summary(RANGES, "Instances", "Range", style="PushPop,")


@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("banner", [True, False])
def test_all_reports_of_one_file_are_read_kernels_first(write, blank, banner):
    path = write(printed(NVTX_SUM, API_SUM, KERN_SUM, MEM_SUM, SIZES, blank=blank, banner=banner))

    tables = open_tables(path)

    assert (tables.kind, tables.stats) == ("kernel", expected(KERNELS))
    assert [(t.kind, t.stats) for t in tables.others] == [
        ("memory", expected(COPIES)),
        ("api", expected(CALLS)),
        ("range", expected(RANGES)),
    ]
    assert len(tables.warnings) == 1
    assert "4 reports" in tables.warnings[0]


def test_ranges_alone_are_not_taken_for_kernels(write):
    tables = open_tables(write(printed(NVTX_SUM)))

    assert (tables.kind, tables.stats) == ("range", expected(RANGES))


@pytest.mark.parametrize("unit", UNITS)
def test_every_time_unit_gives_the_same_nanoseconds(write, unit):
    path = write(printed(summary(KERNELS, "Instances", "Name", unit)))

    assert open_tables(path).stats == expected(KERNELS)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_files_that_powershell_wrote_are_read(write, encoding):
    text = printed(KERN_SUM)
    path = write("\ufeff" + text if encoding == "utf-16-le" else text, encoding)

    assert open_tables(path).stats == expected(KERNELS)


def test_timelines_of_one_file_come_together(write, totals_by_name):
    timeline = open_timeline(write(printed(NVTX_SUM, PUSH_POP, API_TRACE, gpu_trace())))

    assert totals_by_name(timeline, timeline.device, "kernel") == {LONG: (1, 300)}
    assert totals_by_name(timeline, timeline.device, "gpu_memcpy") == {
        "Memcpy HtoD (Pageable -> Device)": (1, 200)
    }
    assert totals_by_name(timeline, timeline.device, "gpu_memset") == {"Memset": (1, 50)}
    assert totals_by_name(timeline, timeline.host, "user_annotation") == {"train_step": (1, 1600)}
    calls = dict(
        zip(timeline.host.correlation.tolist(), timeline.host.start_ns.tolist(), strict=True)
    )
    assert {calls[11], calls[12]} == {100, 600}
    assert timeline.device.num_bytes.tolist() == [4_000_000, -1, 1000]
    assert [(d.id, d.name) for d in timeline.devices] == [(0, "NVIDIA A100")]
    assert len(timeline.warnings) == 1


def test_launches_with_their_kernels_are_read_where_no_other_report_has_them(write):
    alone = open_timeline(write(printed(KERN_EXEC)))
    beside = open_timeline(write(printed(KERN_EXEC, gpu_trace(), API_TRACE)))

    assert alone.device.dur_ns.tolist() == [300]
    assert alone.device.correlation.tolist() == alone.host.correlation.tolist()
    assert len(beside.device) == 3
    assert len(beside.host) == 2


def test_exact_sizes_are_kept_where_the_unit_is_bytes(write):
    report = [line.replace("4.000,9.5", "4096,9.5") for line in gpu_trace(size="B")]

    assert open_timeline(write(printed(report))).device.num_bytes[0] == 4096


def test_a_file_that_ends_within_a_row_keeps_the_rows_before_it(write):
    text = printed(gpu_trace())
    cut = text[: text.index("[CUDA memset]") - 20]

    timeline = open_timeline(write(cut))

    assert timeline.device.dur_ns.tolist() == [200, 300]
    assert "1 CSV rows" in timeline.warnings[0]


def test_a_timeline_is_preferred_to_the_sums_beside_it(write):
    assert find_reader(write(printed(KERN_SUM, gpu_trace()))).__name__.endswith("nsys_trace_csv")
