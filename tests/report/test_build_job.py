"""The document of a job's traces, on the console."""

import pytest
from job_traces import collective, kernel, write_rank

from lightning_gpuprof.cli import main


def write_job(folder, late_us):
    for rank, late in enumerate(late_us):
        events = [*kernel(10, 1000 + late, number=1)]
        wait = max(late_us) - late
        events += collective(1010 + late, wait + 100, number=2, ranks="[0, 1]", size=2)
        write_rank(folder, rank, events, world=len(late_us))


def test_the_rank_that_others_wait_for_is_the_answer(tmp_path, capsys):
    write_job(tmp_path / "job", (0, 500))
    assert main(["analyze", str(tmp_path / "job")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "job: traces of 2 of 2 ranks of a job" in text
    assert "Rank 1 comes last once: the others wait 500 µs for it (31% of" in text
    assert "Before these it computes for longer than they do." in text
    assert "0 [0, 1]" in text


def test_ranks_that_come_together_are_no_finding(tmp_path, capsys):
    write_job(tmp_path, (0, 5))
    assert main(["analyze", *map(str, sorted(tmp_path.iterdir()))]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "No rank keeps the others waiting much" in text


def test_a_missing_rank_is_named(tmp_path, capsys):
    write_job(tmp_path, (0, 500, 3))
    (tmp_path / "rank2.pt.trace.json.gz").unlink()
    main(["analyze", str(tmp_path)])
    assert "There is no trace of rank 2." in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--steady"], ["--step", "3"]])
def test_a_step_of_a_job_is_asked_of_one_trace(tmp_path, capsys, option):
    write_job(tmp_path, (0, 500))
    assert main(["analyze", str(tmp_path), *option]) == 2
    assert "Give one of the files" in capsys.readouterr().err
