from lightning_gpuprof.report.document import decode
from lightning_gpuprof.tab.answers import Preparer, start_process

PREPARING = {"state": "preparing"}


def test_one_process_runs_at_a_time_whatever_its_kind(started):
    preparer = Preparer(started)
    assert preparer.state("timeline", "a") == PREPARING
    assert preparer.state("analysis", "a") == PREPARING
    assert list(started) == [("timeline", "a")]
    started["timeline", "a"].end(0)
    preparer.state("analysis", "a")
    assert list(started) == [("timeline", "a"), ("analysis", "a")]


def test_a_failure_is_told_with_its_last_line_and_not_tried_again(started):
    preparer = Preparer(started)
    preparer.state("analysis", "a")
    started.pop(("analysis", "a")).end(1, "warning\nthe file is of no known kind")
    expected = {"state": "failed", "error": "the file is of no known kind"}
    assert preparer.state("analysis", "a") == expected
    assert preparer.state("analysis", "a") == expected
    assert preparer.state("timeline", "a") == PREPARING
    assert list(started) == [("timeline", "a")]


def test_a_process_that_cannot_be_started_is_a_failure():
    def refuse(kind, path):
        raise OSError("no more processes")

    assert "no more processes" in Preparer(refuse).state("analysis", "a")["error"]


def test_the_processes_write_their_files_beside_what_they_read(
    made_runs, allocator_snapshot, tmp_path
):
    run = made_runs.traced_run(tmp_path, prepared=False)
    (trace,) = (run / "plugins/gpuprof").glob("*.gz")
    snapshot = trace.with_name("rank0-step120-oom.memory.pickle")
    allocator_snapshot.dump(str(snapshot))
    for kind, read, suffix in (
        ("timeline", trace, ".layout"),
        ("analysis", trace, ".analysis.json"),
        ("memory", snapshot, ".analysis.json"),
    ):
        process = start_process(kind, str(read))
        assert (process.communicate()[1], process.returncode) == ("", 0)
        assert read.with_name(read.name + suffix).is_file()
    process = start_process("comparison", str(run), str(run), str(tmp_path / "made.json"))
    assert (process.communicate()[1], process.returncode) == ("", 0)
    assert decode((tmp_path / "made.json").read_bytes()).subject.kind == "comparison"
    assert list(trace.parent.glob("*.part")) == []


def test_a_file_of_no_known_kind_ends_with_a_sentence(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("nothing")
    process = start_process("analysis", str(path))
    assert "is not of a supported kind" in process.communicate()[1].splitlines()[-1]
    assert process.returncode == 1
