"""The command that asks a running training: what it writes, waits for and says."""

import argparse
import os
import socket
from types import SimpleNamespace

import pytest
from made_records import make_session

from lightning_gpuprof.cli import capture, main
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.capture_files import (
    CaptureAnswer,
    CaptureRequest,
    CaptureState,
    answer_path,
    read_file,
    request_path,
    write_file,
)
from lightning_gpuprof.records.schema import RunEnd

CONFIG = {"max_captures": 3}


@pytest.fixture
def live(write_run):
    """Write a run that trains: without a last record, and with this process's number."""

    def write(*, host=None, pid=None, config=CONFIG, **options):
        session = make_session({"forward": 1_000}, config=config, **options)
        start, *others = [record for record in session if not isinstance(record, RunEnd)]
        start.host, start.pid = host or socket.gethostname(), pid or os.getpid()
        return write_run([start, *others])

    return write


def request_in(run):
    return read_file(request_path(run), CaptureRequest)


class Training:
    """Answers as a run does, in the pauses in which the command waits."""

    def __init__(self, run, *turns):
        self.run, self.turns, self.seen, self.now_s, self.shown = run, list(turns), None, 0.0, []

    def sleep(self, seconds):
        self.now_s += seconds
        if self.seen is None and os.path.exists(request_path(self.run)):
            self.seen = request_in(self.run)
        turn = self.turns.pop(0) if self.turns else None
        if turn is not None:
            turn(self)

    def asked(self, timeout_s=60.0, **request):
        return capture.ask(
            self.run,
            CaptureRequest(**{"id": "0" * 8, "started_unix_ns": 1, **request}),
            timeout_s=timeout_s,
            show=self.shown.append,
            now=lambda: self.now_s,
            sleep=self.sleep,
        )


def answers(state, *, id="0" * 8, rank=0, **fields):
    def answer(training):
        if os.path.exists(request_path(training.run)):
            os.unlink(request_path(training.run))
        content = CaptureAnswer(id=id, rank=rank, state=CaptureState(state), step=41, **fields)
        write_file(answer_path(training.run, rank), content)

    return answer


def test_a_request_is_answered_and_its_progress_is_shown(live):
    window = {"first_step": 45, "last_step": 49}
    training = Training(
        live(),
        None,
        answers("waiting", **window),
        answers("sampling", **window, trace_file="t.pt.trace.json.gz"),
        answers("done", **window, trace_file="t.pt.trace.json.gz", samples=290),
    )
    answer = training.asked()[0]
    assert (answer.state, answer.samples) == ("done", 290)
    assert training.seen == CaptureRequest(id="0" * 8, started_unix_ns=1)
    assert list(dict.fromkeys(training.shown)) == [
        "waiting for the run to see the request, for which it looks every 5 s",
        "steps 45 to 49 will be recorded; step 41 has ended",
        "sampling lines for 20 s",
    ]
    said = capture.sentence(answer, "logs")
    assert said == (
        "rank 0 recorded steps 45 to 49 in logs/plugins/gpuprof/t.pt.trace.json.gz, and took 290 "
        "samples of the training thread"
    )


def test_every_rank_that_was_asked_is_waited_for(live):
    training = Training(
        live(world_size=9),
        answers("done", first_step=1, last_step=2, trace_file="a"),
        answers("done", rank=8, id="f" * 8),  # of an earlier request
        answers("refused", rank=8, message="trace=False switches torch.profiler off"),
    )
    found = training.asked(ranks=(0, 8))
    assert [answer.state for answer in found.values()] == ["done", "refused"]
    assert "waiting for rank 8" in training.shown
    assert capture.sentence(found[8], "logs") == (
        "rank 8 recorded nothing: trace=False switches torch.profiler off"
    )


@pytest.mark.parametrize(
    ("turns", "ranks", "said"),
    [
        ((), (0,), "has not seen the request in 60 s, and it was withdrawn"),
        ((answers("done"),), (0, 8), "Rank 8 of .* has not answered .* may not share"),
        (
            (answers("waiting", first_step=900, last_step=904),),
            (0,),
            "steps 900 to 904 will be recorded.* It goes on, and",
        ),
    ],
)
def test_a_timeout_is_a_sentence(live, turns, ranks, said):
    training = Training(live(), *turns)
    with pytest.raises(ConfigError, match=said):
        training.asked(ranks=ranks)
    assert not os.path.exists(request_path(training.run))


def test_a_run_that_ends_before_it_has_seen_the_request_is_said(live, write_run):
    run = live()

    def ends(training):
        write_run(make_session({"forward": 1_000}, config=CONFIG))

    training = Training(run, ends)
    with pytest.raises(ConfigError, match=r"has finished after .* before it saw the request"):
        training.asked()
    assert not os.path.exists(request_path(run))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"config": {}}, "trains without GpuProfCallback, or with max_captures=0"),
        ({"config": {"max_captures": 0}}, "max_captures=0"),
        ({"config": {**CONFIG, "timing": False}}, "timing=False"),
    ],
)
def test_a_run_that_does_not_answer_is_refused(live, capsys, options, said):
    assert main(["capture", live(**options)]) == 2
    assert said in capsys.readouterr().err


def test_a_finished_run_is_refused(write_run, capsys):
    run = write_run(make_session({"forward": 1_000}, config=CONFIG))
    assert main(["capture", run]) == 2
    assert "does not train any more: it has finished after" in capsys.readouterr().err


def test_a_killed_run_is_refused_once_it_has_been_silent(live, capsys, monkeypatch):
    run = live(pid=2**22 + 5)  # beyond the largest number of a process
    path = os.path.join(run, "plugins", "gpuprof", "rank0.jsonl")
    os.utime(path, (1, 1))
    assert main(["capture", run]) == 2
    assert "its process 4194309 is gone" in capsys.readouterr().err
    # A process on another machine cannot be looked for.
    run = live(pid=2**22 + 5, host="elsewhere")
    os.utime(path, (1, 1))
    assert capture._live_session(run).host == "elsewhere"


def test_a_folder_that_may_not_be_written_is_refused(live, capsys, monkeypatch):
    run = live()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main(["capture", run]) == 2
    assert "You may not write to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "0,2"], "--ranks 0,2: this run has no rank 2. Its ranks are 0 to 1"),
        (["--steps", "5000"], "--steps 5000 is too many: pass 1,000 or less"),
        (["--lines", "20m"], "--lines 1200s is too long: pass 600s or less"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(live, capsys, arguments, said):
    assert main(["capture", live(world_size=2), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_the_exit_status_says_whether_every_rank_recorded(live, capsys, monkeypatch):
    run = live()
    found = {
        "done": CaptureAnswer(
            id="0" * 8, rank=0, state=CaptureState.DONE, step=9, first_step=4, last_step=8,
            trace_file="t.gz",
        ),
        "refused": CaptureAnswer(id="0" * 8, rank=0, state=CaptureState.REFUSED, step=9),
    }  # fmt: skip
    for state, status in (("done", 0), ("refused", 1)):
        monkeypatch.setattr(capture, "ask", lambda *_, state=state, **__: {0: found[state]})
        assert main(["capture", run]) == status
    out = capsys.readouterr().out
    assert "rank 0 recorded steps 4 to 8 in" in out
    assert f"lightning-gpuprof report {run}" in out
    assert "rank 0 recorded nothing" in out
    assert main(["capture", run, "--json"]) == 1
    assert '"state": "refused"' in capsys.readouterr().out


def test_progress_is_one_line_on_a_terminal():
    written = []
    stream = SimpleNamespace(write=written.append, flush=lambda: None, isatty=lambda: True)
    waiting = capture.WaitingLine(stream)
    for text in ("a", "a", "b"):
        waiting.show(text)
    waiting.close()
    assert written == ["\r\x1b[2Ka", "\r\x1b[2Kb", "\r\x1b[2K"]


def test_the_request_holds_what_was_asked_for():
    parser = argparse.ArgumentParser()
    capture.add_arguments(parser)
    args = parser.parse_args(["run", "--steps", "9", "--ranks", "8,0", "--stacks", "--lines", "5s"])
    start = SimpleNamespace(world_size=9, started_unix_ns=5)
    request = capture._request(args, start)
    assert (request.steps, request.ranks, request.stacks, request.lines_s) == (9, (0, 8), True, 5.0)
    assert request.started_unix_ns == 5
    assert request.problem() is None
    defaults = capture._request(parser.parse_args(["run"]), start)
    assert (defaults.steps, defaults.ranks, defaults.stacks, defaults.lines_s) == (
        5, (0,), False, 20.0
    )  # fmt: skip


def test_a_run_on_another_machine_is_asked_too(live, capsys, monkeypatch):
    answer = CaptureAnswer(id="0" * 8, rank=0, state=CaptureState.DONE, step=9, samples=3)
    monkeypatch.setattr(capture, "ask", lambda *_, **__: {0: answer})
    assert main(["capture", live(host="node7")]) == 0
    said = capsys.readouterr()
    assert "trains on node7: it may take a minute" in said.err
    assert "rank 0 took 3 samples of the training thread" in said.out
    assert main(["capture", live()]) == 0
    assert "may take a minute" not in capsys.readouterr().err
