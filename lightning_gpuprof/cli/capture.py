"""`lightning-gpuprof capture RUN`: asks a running training for a profiler window and its lines."""

import argparse
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

from lightning_gpuprof.cli.arguments import positive, span, whole_numbers
from lightning_gpuprof.cli.output import write_json
from lightning_gpuprof.cli.report import DEFAULT_LOGS
from lightning_gpuprof.errors import ConfigError, UnreadableError
from lightning_gpuprof.records.capture_files import (
    MOST_LINES_S,
    MOST_STEPS,
    CaptureAnswer,
    CaptureRequest,
    CaptureState,
    answer_path,
    read_file,
    request_path,
    write_file,
)
from lightning_gpuprof.records.files import plugin_dir, record_files
from lightning_gpuprof.records.glance import glance, process_lives
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import RunEnd, RunStart
from lightning_gpuprof.report.clean import cleaned
from lightning_gpuprof.report.load import resolve_run

POLL_S = 0.5
SILENT_S = 60.0
"""A process that is not found is called dead only if it has recorded nothing for so long: that of a
container cannot be found from outside."""
FINAL = (CaptureState.DONE, CaptureState.REFUSED)
ORDER = (CaptureState.WAITING, CaptureState.SAMPLING, *FINAL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "run",
        metavar="RUN",
        nargs="?",
        default=DEFAULT_LOGS,
        help="log dir of a run that trains now, or a folder of runs, for the newest; "
        f"default: {DEFAULT_LOGS}",
    )
    add(
        "--steps",
        type=positive,
        default=5,
        metavar="N",
        help="steps that torch.profiler records (default: 5)",
    )
    add(
        "--ranks",
        type=whole_numbers,
        default="0",
        metavar="N,N",
        help="ranks that record, all of them the same steps (default: 0)",
    )
    add("--stacks", action="store_true", help="record Python stacks too; the trace becomes large")
    add(
        "--lines",
        type=span,
        default="20s",
        metavar="SPAN",
        help="for how long the lines of the program are sampled behind the window (default: 20s)",
    )
    add(
        "--timeout",
        type=span,
        default="5m",
        metavar="SPAN",
        help="how long to wait for the answer (default: 5m)",
    )
    add("--json", action="store_true", help="print the answers as JSON")


def run(args: argparse.Namespace) -> int:
    """Write a request, wait for the answer of every rank, and print it; return 1 if one refused."""
    folder, notices = resolve_run(args.run)
    for notice in notices:
        print(notice, file=sys.stderr)
    start = _live_session(folder)
    request = _request(args, start)
    if start.host != socket.gethostname():
        print(
            f"{folder} trains on {start.host or 'another machine'}: it may take a minute until "
            "that machine sees a file of this one.",
            file=sys.stderr,
        )
    progress = WaitingLine(sys.stderr)
    try:
        answers = ask(folder, request, timeout_s=args.timeout, show=progress.show)
    finally:
        progress.close()
    if args.json:
        write_json({"schema_version": 1, "run": folder, "answers": cleaned(list(answers.values()))})
    else:
        for answer in answers.values():
            print(sentence(answer, folder))
        if any(answer.trace_file for answer in answers.values()):
            print(f"\nlightning-gpuprof report {folder}    shows what it says")
    return 1 if any(answer.state is CaptureState.REFUSED for answer in answers.values()) else 0


def _request(args: argparse.Namespace, start: RunStart) -> CaptureRequest:
    ranks = tuple(sorted(set(args.ranks)))
    if beyond := [rank for rank in ranks if not 0 <= rank < start.world_size]:
        raise ConfigError(
            f"--ranks {','.join(map(str, args.ranks))}: this run has no rank {beyond[0]}. Its "
            f"ranks are 0 to {start.world_size - 1}."
        )
    if args.steps > MOST_STEPS:
        raise ConfigError(f"--steps {args.steps} is too many: pass {MOST_STEPS:,} or less.")
    if args.lines > MOST_LINES_S:
        raise ConfigError(f"--lines {args.lines:g}s is too long: pass {MOST_LINES_S:g}s or less.")
    return CaptureRequest(
        id=secrets.token_hex(8),
        started_unix_ns=start.started_unix_ns,
        steps=args.steps,
        ranks=ranks,
        stacks=args.stacks,
        lines_s=args.lines,
    )


def _live_session(run: str) -> RunStart:
    """Return the start of the session that trains now.

    Raises:
        ConfigError: No session trains, or it cannot be asked.
    """
    files = record_files(run)
    if 0 not in files:
        raise ConfigError(
            f"{run} holds no records of rank 0. Pass the log dir of a run that trains with "
            "GpuProfCallback(), such as lightning_logs/version_0."
        )
    look = glance(files[0])
    start, end = look.last_start or _last_start(run), look.end
    if end is not None:
        raise ConfigError(
            f"{run} does not train any more: it {_ended(end)}. A capture needs a run that trains; "
            f"`lightning-gpuprof report {run}` shows what was recorded."
        )
    if not start.config.get("max_captures") or start.config.get("timing") is False:
        raise ConfigError(
            f"{run} does not answer: it trains without GpuProfCallback, or with max_captures=0 or "
            "timing=False."
        )
    silent_s = time.time() - os.stat(files[0]).st_mtime
    if silent_s > SILENT_S and process_lives(start) is False:
        raise ConfigError(
            f"{run} does not train any more: its process {start.pid} is gone, without a last "
            "record. It was probably killed."
        )
    if not os.access(plugin_dir(run), os.W_OK):
        raise ConfigError(
            f"You may not write to {plugin_dir(run)}, and a request is a file in it. Ask as the "
            "user who trains."
        )
    return start


def _last_start(run: str) -> RunStart:
    """Return the start of the last session, however far it is from the end of the file."""
    sessions = read_run(run)[0].sessions
    if not sessions:
        raise ConfigError(f"{run}: the records of rank 0 hold no session that can be read.")
    return sessions[-1].start


def _ended(end: RunEnd) -> str:
    if end.status == "finished":
        return f"has finished after {end.steps:,} steps"
    return f"ended after {end.steps:,} steps ({end.status})"


def ask(
    run: str,
    request: CaptureRequest,
    *,
    timeout_s: float,
    show: Callable[[str], object],
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> dict[int, CaptureAnswer]:
    """Write a request, and return the last answer of every rank that was asked.

    Args:
        run: The log dir of the run.
        request: The request.
        timeout_s: How long to wait.
        show: Receives what is being waited for.
        now: The time in seconds; tests pass a fake.
        sleep: Sleeps for seconds; tests pass a fake.

    Raises:
        ConfigError: The run has not answered in that time, or it has ended.
    """
    path = request_path(run)
    write_file(path, request)
    begun = now()
    answers: dict[int, CaptureAnswer] = {}
    while not all(rank in answers and answers[rank].state in FINAL for rank in request.ranks):
        if now() - begun > timeout_s:
            raise ConfigError(_no_answer(run, request, answers, timeout_s))
        show(_waits_for(request, answers))
        sleep(POLL_S)
        answers |= _answers(run, request)
        if not answers and (end := glance(record_files(run)[0]).end) is not None:
            _withdraw(path)
            raise ConfigError(f"{run} {_ended(end)}, before it saw the request.")
    return {rank: answers[rank] for rank in request.ranks}


def _answers(run: str, request: CaptureRequest) -> dict[int, CaptureAnswer]:
    answers = {}
    for rank in request.ranks:
        with suppress(OSError, UnreadableError):  # there is none yet
            answer = read_file(answer_path(run, rank), CaptureAnswer)
            if answer.id == request.id:
                answers[rank] = answer
    return answers


def _withdraw(path: str) -> bool:
    """Remove a request, and return whether nobody had seen it."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _waits_for(request: CaptureRequest, answers: Mapping[int, CaptureAnswer]) -> str:
    """Say what the command waits for."""
    if not answers:
        return "waiting for the run to see the request, for which it looks every 5 s"
    least = min(answers.values(), key=lambda answer: ORDER.index(answer.state))
    if least.state is CaptureState.WAITING:
        return f"{_steps(least)} will be recorded; step {least.step} has ended"
    if len(answers) < len(request.ranks):
        missing = sorted(set(request.ranks) - answers.keys())
        return f"waiting for rank {', '.join(map(str, missing))}"
    return f"sampling lines for {request.lines_s:g} s"


def _no_answer(
    run: str, request: CaptureRequest, answers: Mapping[int, CaptureAnswer], timeout_s: float
) -> str:
    """Say why there is no answer, as far as can be known."""
    if not answers and _withdraw(request_path(run)):
        return (
            f"{run} has not seen the request in {timeout_s:g} s, and it was withdrawn. The run may "
            "hang, be in a long validation, have been killed, or write to another machine's disk; "
            f"a shared file system may take a minute, which --timeout {2 * timeout_s:g}s allows."
        )
    missing = sorted(set(request.ranks) - answers.keys())
    if missing:
        ranks = ", ".join(map(str, missing))
        return (
            f"Rank {ranks} of {run} has not answered in {timeout_s:g} s. Its machine may not share "
            "the run's folder."
        )
    return (
        f"{run} has seen the request, but was not done in {timeout_s:g} s: "
        f"{_waits_for(request, answers)}. It goes on, and `lightning-gpuprof report {run}` will "
        "list the capture."
    )


def _steps(answer: CaptureAnswer) -> str:
    return f"steps {answer.first_step} to {answer.last_step}"


def sentence(answer: CaptureAnswer, run: str) -> str:
    """Say what a rank has recorded."""
    clauses = []
    if answer.trace_file:
        path = os.path.join(plugin_dir(run), os.path.basename(answer.trace_file))
        clauses.append(f"recorded {_steps(answer)} in {path}")
    samples = [
        f"{count} {'sample' if count == 1 else 'samples'} of {whose}"
        for count, whose in (
            (answer.samples, "the training thread"),
            (answer.worker_samples, "the loader's workers"),
        )
        if count
    ]
    if samples:
        clauses.append(f"took {' and '.join(samples)}")
    text = f"rank {answer.rank} {', and '.join(clauses) or 'recorded nothing'}"
    return f"{text}: {answer.message}" if answer.message else text


class WaitingLine:
    """Shows what is being waited for: on a terminal in a line that is replaced."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Show a text, unless it is shown already."""
        if text != self._shown:
            self._stream.write(f"\r\x1b[2K{text}" if self._is_terminal else f"{text}\n")
            self._stream.flush()
        self._shown = text

    def close(self) -> None:
        """Clear the line."""
        if self._is_terminal and self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
