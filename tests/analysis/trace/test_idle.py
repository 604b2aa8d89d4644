import pytest


@pytest.fixture
def causes(analysed):
    """Return the idle time of a trace of these events by its causes."""

    def found(*events):
        device = analysed(*events).gpu
        causes = {row.cause: row.total_ns for row in device.idle}
        assert sum(causes.values()) == device.idle_ns
        return causes

    return found


def test_time_before_a_late_launch_is_what_its_thread_was_doing(causes, op, launched):
    found = causes(
        *launched(1, 0, 5, 10),  # runs until 15
        op("augment", 16, 8, cat="user_annotation"),  # 16 to 24
        op("aten::linear", 30, 30),  # its own until 32, then a call until 40
        op("cudaMalloc", 32, 8, cat="cuda_runtime"),
        *launched(2, 50, 55, 10),
    )
    assert found == {
        "host_python": 7_000,  # 15 to 16 and 24 to 30
        "host_region": 8_000,
        "host_operator": 12_000,  # 30 to 32 and 40 to 50
        "host_allocator": 8_000,
        "launch_latency": 5_000,
    }


def test_another_threads_work_is_no_cause(causes, op, launched):
    found = causes(*launched(1, 0, 5, 10), op("aten::mm", 15, 30, tid=2), *launched(2, 40, 45, 10))
    assert found == {"host_python": 25_000, "launch_latency": 5_000}


def test_all_inside_a_wait_for_data_counts_as_that_wait(causes, op, launched):
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    found = causes(
        *launched(1, 0, 5, 10),
        op(name, 15, 20, cat="user_annotation"),
        op("aten::stack", 20, 10),
        *launched(2, 35, 40, 10),
    )
    assert found == {"host_data_wait": 20_000, "launch_latency": 5_000}


def test_queued_work_that_does_not_start_is_a_dependency_unless_the_gap_is_short(causes, launched):
    found = causes(
        *launched(1, 0, 5, 10),
        *launched(2, 2, 17, 10),  # 2 us after the one before, on the same stream
        *launched(3, 3, 29, 10, stream=20),  # another stream's
        *launched(4, 4, 80, 10, stream=20),
    )
    assert found == {"kernel_gap": 2_000, "dependency": 2_000 + 41_000}


def test_a_call_that_takes_long_to_launch_is_the_hosts_time(causes, launched):
    """The first use of a kernel loads its module inside the launching call."""
    found = causes(*launched(1, 0, 5, 10), *launched(2, 20, 530, 10, call_dur=500))
    assert found == {
        "host_python": 5_000,
        "host_launch_call": 500_000,
        "launch_latency": 10_000,
    }


def test_a_gap_whose_launch_is_not_recorded_has_no_known_cause(causes, op, launched):
    lonely = launched(9, 0, 40, 10)[1]
    found = causes(op(), *launched(1, 0, 5, 10), lonely)
    assert found == {"unknown": 25_000}


def test_a_launch_stamped_after_its_kernel_gives_no_negative_time(causes, launched):
    found = causes(*launched(1, 0, 5, 10), *launched(2, 30, 25, 10))
    assert found == {"host_python": 10_000}


def test_the_longest_gaps_say_what_ended_them(analysed, op, launched):
    found = analysed(
        *launched(1, 0, 5, 10),
        op("optimizer", 20, 90, cat="user_annotation"),
        op("aten::add", 95, 10),
        *launched(2, 100, 104, 10, name="add_kernel"),
    )
    (gap,) = found.gaps
    assert (gap.start_ns, gap.dur_ns, gap.cause) == (15_000, 89_000, "host_region")
    assert (gap.next_name, gap.operator, gap.region) == ("add_kernel", "aten::add", "optimizer")
