"""rocpd in the names of its newer schema; the tiny file of tests/data has the older ones.

rocprofv3 puts a run's id into the names of its tables; the views over them are what is read.
"""

import sqlite3

import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import of_category

ID = "_0000aaaa_bbbb"
MARKER = ("MARKER_CORE_RANGE_API", "roctxRangePushA", 41, 42, 90, 180, 23)


@pytest.fixture
def database(write_database):
    path = write_database(
        rocpd_info_agent=(
            "type, absolute_index, name, product_name, vendor_name",
            [("GPU", 1, "gfx942", "AMD Instinct MI300X", "AMD")],
        ),
        rocpd_kernel_dispatch=("id", [(1,)]),
        regions=(
            'category, name, pid, tid, start, "end", stack_id, extdata',
            [
                ("HIP_RUNTIME_API_EXT", "hipLaunchKernel", 41, 42, 100, 110, 21, "{}"),
                (*MARKER, '{"message": "epoch 3"}'),
            ],
        ),
        memory_copies=(
            'name, pid, start, "end", stream_id, size, dst_agent_absolute_index, '
            "src_agent_absolute_index, stack_id",
            [("MEMORY_COPY_HOST_TO_DEVICE", 41, 160, 170, 7, 4096, 1, 0, 22)],
        ),
    )
    with sqlite3.connect(path) as connection:
        connection.executescript(f"""
            CREATE TABLE rocpd_dispatch{ID} (start, "end", event);
            INSERT INTO rocpd_dispatch{ID} VALUES (120, 150, 21);
            CREATE VIEW kernels AS SELECT 'gemm' AS name, 41 AS pid, NULL AS tid,
                1 AS agent_absolute_index, 7 AS stream_id, 1 AS queue_id, start, "end",
                event AS stack_id FROM rocpd_dispatch{ID};
        """)
    connection.close()
    return path


def test_the_newer_schema_is_read(database, totals_by_name):
    timeline = open_timeline(database)

    copies = of_category(timeline.device, "gpu_memcpy")
    assert timeline.source == "rocpd"
    assert not timeline.warnings
    assert totals_by_name(timeline, timeline.device, "kernel") == {"gemm": (1, 30)}
    assert totals_by_name(timeline, timeline.host, "cuda_runtime") == {"hipLaunchKernel": (1, 10)}
    assert timeline.device.num_bytes[copies].tolist() == [4096]
    assert timeline.device.device.tolist() == [1, 1]
    assert timeline.device.correlation.tolist() == [21, 22]
    assert timeline.devices[0].name == "AMD Instinct MI300X"


def test_a_marker_carries_its_text_not_the_call_that_made_it(database, totals_by_name):
    timeline = open_timeline(database)

    found = totals_by_name(timeline, timeline.host, "user_annotation")
    assert found == {"epoch 3": (1, 90)}


def test_kernels_that_the_view_loses_are_said(database):
    with sqlite3.connect(database) as connection:
        connection.execute(f"DELETE FROM rocpd_dispatch{ID}")
    connection.close()

    timeline = open_timeline(database)

    assert "1 of 1 kernels are not in the file's view" in timeline.warnings[0]


def test_packed_details_keep_no_event_away(write_database, totals_by_name):
    columns = 'category, name, pid, tid, start, "end", stack_id, packed'
    path = write_database(made=(columns, [(*MARKER, b"\x00\x11")]), rocpd_region=("id", []))
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE VIEW regions AS SELECT *, CAST(lz4_decompress(packed) AS TEXT) AS extdata "
            "FROM made"
        )
    connection.close()

    timeline = open_timeline(path)

    found = totals_by_name(timeline, timeline.host, "user_annotation")
    assert found == {"roctxRangePushA": (1, 90)}
