import os
import subprocess
import sys

import pytest

from lightning_gpuprof.low_priority import cpu_share, step_back


@pytest.mark.skipif(sys.platform != "linux", reason="autogroups and /proc are Linux's")
def test_a_process_in_a_session_of_its_own_steps_back_with_its_whole_group():
    waiting = [sys.executable, "-c", "input()"]
    process = subprocess.Popen(waiting, stdin=subprocess.PIPE, start_new_session=True)
    try:
        step_back(process.pid)

        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
        with open(f"/proc/{process.pid}/oom_score_adj") as file:
            assert file.read().strip() == "1000"
        group = f"/proc/{process.pid}/autogroup"
        if os.path.exists(group):
            with open(group) as file:
                told = file.read().split()
            # Other processes may have changed theirs within the last tenth of a second.
            assert told[-1:] in (["19"], ["0"], [])
    finally:
        process.communicate()


def test_a_process_that_is_gone_is_left_alone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    step_back(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="autogroups and /proc are Linux's")
def test_a_session_that_is_shared_keeps_its_group_as_it_is():
    shell = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    within = (
        "import os; from lightning_gpuprof.low_priority import step_back\n"
        "group = f'/proc/{os.getpid()}/autogroup'\n"
        "read = lambda: open(group).read() if os.path.exists(group) else ''\n"
        "before = read(); step_back(os.getpid())\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0), read() == before)"
    )

    done = subprocess.run(
        [sys.executable, "-c", shell, within],
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["19", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_processs_share_of_a_core_is_of_its_own_life():
    share = cpu_share(os.getpid())
    lived_s = sum(os.times()[:4]) / share
    with open("/proc/uptime") as file:
        assert 0 < lived_s <= float(file.read().split()[0]) + 1


def test_a_process_that_is_gone_has_no_share_of_a_core():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert cpu_share(process.pid) is None
