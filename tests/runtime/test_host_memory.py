"""Memory as Linux shows it, in a folder of the test's own."""

import pytest

from lightning_gpuprof.runtime.host_memory import ProcessPages, available_bytes, process_pages

ROLLUP = """5625-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:                1820 kB
Shared_Dirty:        700 kB
Private_Clean:        40 kB
Private_Dirty:       112 kB
Anonymous:           812 kB
"""


def test_the_pages_of_a_process_are_read(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text(ROLLUP)
    assert process_pages(7, tmp_path) == ProcessPages(152 * 1024, 812 * 1024)


def test_a_process_that_has_ended_has_no_pages(tmp_path):
    assert process_pages(7, tmp_path) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text("")
    assert process_pages(7, tmp_path) is None


def test_a_system_without_these_figures_differs_from_a_process_that_has_ended(tmp_path):
    with pytest.raises(FileNotFoundError):
        process_pages(7, tmp_path / "none")
    (tmp_path / "7").mkdir()
    with pytest.raises(FileNotFoundError):
        process_pages(7, tmp_path)


@pytest.fixture
def machine(tmp_path):
    """A machine with 1000 MB available, and with control groups: their files by folder."""

    def made(named, **groups):
        (tmp_path / "self").mkdir()
        (tmp_path / "meminfo").write_text("MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\n")
        (tmp_path / "self" / "cgroup").write_text(named)
        for folder, files in groups.items():
            path = tmp_path / "groups" / folder.replace("_", "/")
            path.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (path / name).write_text(text)
        return available_bytes(tmp_path, tmp_path / "groups")

    return made


def version_2(limit, used, cache=0):
    stat = f"anon 9\ninactive_file {cache}\n"
    return {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}


def test_without_a_limit_all_that_the_machine_has_is_available(machine):
    assert machine("0::/\n") == 1_000_000 * 1024


def test_a_containers_limit_counts_if_it_leaves_less(machine):
    assert machine("0::/job\n", job=version_2(900_000, 700_000, cache=50_000)) == 250_000


def test_a_limit_of_a_group_above_counts_too(machine):
    groups = {"job": version_2(900_000, 800_000), "job_task": version_2("max", 1)}
    assert machine("0::/job/task\n", **groups) == 100_000


def test_control_groups_of_version_1_are_read(machine):
    files = {
        "memory.limit_in_bytes": "900000",
        "memory.usage_in_bytes": "600000",
        "memory.stat": "total_inactive_file 1000\n",
    }
    named = "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n"
    assert machine(named, memory_box=files) == 301_000


def test_a_system_without_proc_does_not_say_what_is_available(tmp_path):
    assert available_bytes(tmp_path) is None
