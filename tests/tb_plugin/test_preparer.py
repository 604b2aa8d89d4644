from io import StringIO
from types import SimpleNamespace

from lightning_gpuprof.tb_plugin.preparer import Preparer, start_process


class FakeProcess:
    def __init__(self):
        self.returncode = None
        self.stderr = StringIO("")

    def poll(self):
        return self.returncode

    def end(self, code, said=""):
        self.returncode, self.stderr = code, StringIO(said)


def test_one_trace_is_prepared_at_a_time(tmp_path):
    started = []
    preparer = Preparer(lambda path: started.append((path, FakeProcess())) or started[-1][1])
    assert preparer.state("a") == {"state": "preparing"}
    assert preparer.state("b") == {"state": "preparing"}
    assert [path for path, _ in started] == ["a"]
    started[0][1].end(0)
    preparer.state("b")
    assert [path for path, _ in started] == ["a", "b"]


def test_a_failure_is_told_with_its_last_line_and_not_tried_again():
    process = FakeProcess()
    preparer = Preparer(lambda path: process)
    preparer.state("a")
    process.end(1, "warning\nthe file is of no known kind")
    expected = {"state": "failed", "error": "the file is of no known kind"}
    assert preparer.state("a") == expected
    assert preparer.state("a") == expected


def test_a_process_that_cannot_be_started_is_a_failure():
    def refuse(path):
        raise OSError("no more processes")

    preparer = Preparer(refuse)
    assert preparer.state("a") == {"state": "preparing"}
    assert "no more processes" in preparer.state("a")["error"]


def test_the_process_writes_the_drawing_beside_the_trace(made_runs, tmp_path):
    run = made_runs.traced_run(tmp_path, prepared=False)
    (trace,) = (run / "plugins/gpuprof").glob("*.gz")
    process = start_process(str(trace))
    assert (process.wait(60), process.stderr.read()) == (0, "")
    process.stderr.close()
    assert trace.with_name(trace.name + ".drawing").is_file()
    assert SimpleNamespace(left=list(trace.parent.glob("*.part"))).left == []


def test_a_file_of_no_known_kind_ends_with_a_sentence(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("nothing")
    process = start_process(str(path))
    assert process.wait(60) == 1
    assert "not of a kind that can be read" in process.stderr.read().splitlines()[-1]
    process.stderr.close()
