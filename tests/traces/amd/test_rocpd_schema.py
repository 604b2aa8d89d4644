"""rocpd as rocprofv3 lays it out: tables with the run's id in their names, and views over them.

The tables hold what the reader must not need to know; it reads the views. Times have a table of
their own since schema 4; the tiny file of tests/data has the older form of the views.
"""

import sqlite3

import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import of_category

ID = "_0000aaaa_bbbb"
STRINGS = {
    1: "HIP_RUNTIME_API_EXT",
    2: "hipLaunchKernel",
    3: "KERNEL_DISPATCH",
    4: "MEMORY_COPY",
    5: "MEMORY_COPY_HOST_TO_DEVICE",
    6: "MARKER_CORE_RANGE_API",
    7: "roctxRangePushA",
    8: "",
}
# event: id, category, stack; the stack id is the profiler's own correlation id
EVENTS = [
    (1, 1, 21, "{}"),
    (2, 3, 21, "{}"),
    (3, 4, 22, "{}"),
    (4, 6, 23, '{"message": "epoch 3"}'),
]
TIMES = {"call": (100, 110), "kernel": (120, 150), "copy": (160, 170), "range": (90, 180)}


def new(connection):
    """Times in a table of their own; agents numbered by `agent_absolute_index`."""
    connection.executescript(f"""
        CREATE TABLE rocpd_timestamp{ID} (id, value);
        CREATE TABLE rocpd_region{ID} (id, name_id, start_id, end_id, event_id);
        CREATE TABLE rocpd_kernel_dispatch{ID} (id, start_id, end_id, event_id);
        CREATE TABLE rocpd_memory_copy{ID} (id, start_id, end_id, name_id, size, event_id);
        CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch{ID};
        CREATE VIEW regions AS SELECT C.string AS category, S.string AS name, 41 AS pid, 42 AS tid,
            B.value AS start, F.value AS end, E.stack_id, E.extdata FROM rocpd_region{ID} R
            JOIN rocpd_event{ID} E ON E.id = R.event_id JOIN rocpd_string{ID} S ON S.id = R.name_id
            JOIN rocpd_string{ID} C ON C.id = E.category_id
            JOIN rocpd_timestamp{ID} B ON B.id = R.start_id
            JOIN rocpd_timestamp{ID} F ON F.id = R.end_id;
        CREATE VIEW kernels AS SELECT 'gemm' AS name, 41 AS pid, NULL AS tid,
            1 AS agent_absolute_index, 7 AS stream_id, 1 AS queue_id, B.value AS start,
            F.value AS end, E.stack_id FROM rocpd_kernel_dispatch{ID} K
            JOIN rocpd_event{ID} E ON E.id = K.event_id
            JOIN rocpd_timestamp{ID} B ON B.id = K.start_id
            JOIN rocpd_timestamp{ID} F ON F.id = K.end_id;
        CREATE VIEW memory_copies AS SELECT S.string AS name, 41 AS pid, B.value AS start,
            F.value AS end, 7 AS stream_id, M.size, 1 AS dst_agent_absolute_index,
            0 AS src_agent_absolute_index, E.stack_id FROM rocpd_memory_copy{ID} M
            JOIN rocpd_event{ID} E ON E.id = M.event_id JOIN rocpd_string{ID} S ON S.id = M.name_id
            JOIN rocpd_timestamp{ID} B ON B.id = M.start_id
            JOIN rocpd_timestamp{ID} F ON F.id = M.end_id;
    """)
    moments = [moment for pair in TIMES.values() for moment in pair]
    connection.executemany(
        f"INSERT INTO rocpd_timestamp{ID} VALUES (?, ?)", list(enumerate(moments, 1))
    )
    regions = [(1, 2, 1, 2, 1), (2, 7, 7, 8, 4)]
    connection.executemany(f"INSERT INTO rocpd_region{ID} VALUES (?, ?, ?, ?, ?)", regions)
    connection.execute(f"INSERT INTO rocpd_kernel_dispatch{ID} VALUES (1, 3, 4, 2)")
    connection.execute(f"INSERT INTO rocpd_memory_copy{ID} VALUES (1, 5, 6, 5, 4096, 3)")


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE rocpd_string{ID} (id, string)")
        connection.execute(f"CREATE TABLE rocpd_event{ID} (id, category_id, stack_id, extdata)")
        connection.executemany(f"INSERT INTO rocpd_string{ID} VALUES (?, ?)", STRINGS.items())
        connection.executemany(f"INSERT INTO rocpd_event{ID} VALUES (?, ?, ?, ?)", EVENTS)
        connection.execute(
            "CREATE TABLE rocpd_info_agent (type, absolute_index, name, product_name, vendor_name)"
        )
        agent = ("GPU", 1, "gfx942", "AMD Instinct MI300X", "AMD")
        connection.execute("INSERT INTO rocpd_info_agent VALUES (?, ?, ?, ?, ?)", agent)
        new(connection)
    connection.close()
    return str(path)


def test_the_views_of_the_newer_schema_are_read(database, totals_by_name):
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
        connection.execute(f"UPDATE rocpd_event{ID} SET id = 99 WHERE id = 2")
    connection.close()

    timeline = open_timeline(database)

    assert "1 of 1 kernels are not in the file's view" in timeline.warnings[0]


def test_packed_details_keep_no_event_away(tmp_path, totals_by_name):
    path = tmp_path / "packed.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(f"""
            CREATE TABLE rocpd_region{ID} (id, start, "end", extdata);
            CREATE VIEW rocpd_region AS SELECT id, start, "end",
                CAST(lz4_decompress(extdata) AS TEXT) AS extdata FROM rocpd_region{ID};
            CREATE VIEW regions AS SELECT 'MARKER_CORE_RANGE_API' AS category,
                'roctxRangePushA' AS name, 41 AS pid, 42 AS tid, start, "end", 23 AS stack_id,
                extdata FROM rocpd_region;
            INSERT INTO rocpd_region{ID} VALUES (1, 90, 180, x'0011');
        """)
    connection.close()

    timeline = open_timeline(str(path))

    found = totals_by_name(timeline, timeline.host, "user_annotation")
    assert found == {"roctxRangePushA": (1, 90)}
