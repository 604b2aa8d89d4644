import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

import lightning_gpuprof
from lightning_gpuprof import cli
from lightning_gpuprof.errors import RecordError


def register(monkeypatch, run):
    module = SimpleNamespace(add_arguments=lambda parser: parser.add_argument("--n"), run=run)
    monkeypatch.setitem(cli.COMMANDS, "probe", "try something")
    monkeypatch.setattr(cli, "import_module", lambda name: module)


def test_version_is_the_package_version(capsys):
    with pytest.raises(SystemExit) as exited:
        cli.main(["--version"])
    assert exited.value.code == 0
    assert capsys.readouterr().out == f"lightning-gpuprof {lightning_gpuprof.__version__}\n"


def test_a_command_gets_its_arguments_and_gives_the_exit_status(monkeypatch):
    register(monkeypatch, lambda args: int(args.n))
    assert cli.main(["probe", "--n", "3"]) == 3


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RecordError("no such run"), "no such run\n"),
        (PermissionError(13, "Permission denied", "rank0.jsonl"), "rank0.jsonl: Permission denied"),
    ],
)
def test_an_error_that_is_no_bug_is_a_message_on_stderr_and_status_2(
    monkeypatch, capsys, error, said
):
    def run(args):
        raise error

    register(monkeypatch, run)
    assert cli.main(["probe"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"lightning-gpuprof: {said}")


def test_help_lists_every_command_without_importing_its_module():
    code = (
        "import sys, lightning_gpuprof.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([c for c in cli.COMMANDS if f'lightning_gpuprof.cli.{c}' in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f"    {name}" in out.stdout for name in cli.COMMANDS)
    assert out.stdout.endswith("[]\n")


def test_without_a_command_all_of_them_are_listed(capsys):
    assert cli.main([]) == 2
    said = capsys.readouterr().err
    assert "compare" in said
    assert "why a PyTorch Lightning training run is slow" in said


def test_a_terminal_of_ascii_alone_gets_ascii(monkeypatch):
    said = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(said, encoding="ascii"))
    register(monkeypatch, lambda args: sys.stdout.write("12 µs, é\n") and 0)
    cli.main(["probe"])
    assert said.getvalue() == b"12 us, ?\n"
