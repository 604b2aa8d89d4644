"""No text of a file can control the terminal, change the direction of text, or forge a line."""

import json
import re
from itertools import islice

import pytest
from document_samples import SAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from lightning_gpuprof.cli import main
from lightning_gpuprof.cli.inspect import text as inspection_text
from lightning_gpuprof.cli.output import write_json
from lightning_gpuprof.records.inspection import Inspection, Waste
from lightning_gpuprof.report import console, markdown
from lightning_gpuprof.report.clean import cleaned, message, printable
from lightning_gpuprof.report.document import encode
from lightning_gpuprof.report.notebook import first_screen

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\u2066\r\x08\nFORGED: no problem\u2028FORGED"
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
FORGED = re.compile("^FORGED", re.MULTILINE)
HOSTILE_TEXTS = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]),
        st.sampled_from("\x1b\n\r\x9b\u202e[;m"),
    ),
    max_size=40,
)


def is_safe(text):
    return not CONTROLS.search(text) and not FORGED.search(text)


def poisoned(value, added, field=""):
    """Return a document with a text added to every text that does not decide its form."""
    if isinstance(value, str):
        return value if field in FORM else value + (added if field != "change" else "\x1b[2J")
    if isinstance(value, Struct):
        names = value.__struct_fields__
        changes = {name: poisoned(getattr(value, name), added, name) for name in names}
        return structs.replace(value, **changes)
    if isinstance(value, tuple):
        return tuple(poisoned(item, added, field) for item in value)
    if isinstance(value, dict):
        return {key: poisoned(item, added, key) for key, item in value.items()}
    return value


FORM = ("kind", "style", "unit", "detail", "key", "id", "severity", "state", "finding", "view",
        "sort", "color", "opens", "when")  # fmt: skip


@given(HOSTILE_TEXTS)
def test_a_cleaned_text_is_one_line_of_printable_characters(text):
    line = cleaned((text,))[0]
    assert not CONTROLS.search(line)
    assert len(line.splitlines()) <= 1
    assert cleaned((line,))[0] is line
    line.encode()


@given(HOSTILE_TEXTS, HOSTILE_TEXTS)
def test_the_further_lines_of_a_message_are_indented(first, second):
    lines = message(f"{first}\n{second}").split("\n")
    assert all(line.startswith("    ") for line in lines[1:])
    assert not CONTROLS.search("".join(lines))


def test_what_is_clean_stays_the_same_object():
    clean = ({"a": ["µs ← 計測", 1.5]}, Waste("w", "title", "advice"))
    assert cleaned(clean) is clean


@pytest.fixture(scope="session")
def documents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    return [
        document
        for kind, make in SAMPLES.items()
        for document in islice(make(folder / kind).values(), 3)
    ]


def test_no_document_lets_a_text_through_on_any_surface(documents, capsys):
    for document in documents:
        hostile = poisoned(document, HOSTILE)
        write_json(hostile)
        surfaces = [
            *(console.render(hostile, verbose=verbose, width=100_000) for verbose in (0, 1)),
            *(markdown.render(hostile, verbose=verbose) for verbose in (0, 1)),
            first_screen(hostile),
            encode(hostile).decode(),
            capsys.readouterr().out,
        ]
        assert all("FORGED" in text for text in surfaces)
        assert all(map(is_safe, surfaces)), document.subject.name


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=HOSTILE_TEXTS)
def test_analyze_shows_any_name_of_a_kernel_on_a_line_of_its_own(tmp_path, capsys, name):
    path = write_hostile_trace(tmp_path, name.encode("utf-8", "replace").decode())
    for form in ([], ["--verbose"], ["--json"]):
        assert main(["analyze", path, *form]) == 0
        captured = capsys.readouterr()
        assert not CONTROLS.search(captured.out + captured.err)


def write_hostile_trace(folder, name):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": 9},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 3, "dur": 50,
         "args": {"device": 0, "stream": 7, "correlation": 1}},
    ]  # fmt: skip
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    return str(path)


def test_no_command_repeats_controls_of_a_path(tmp_path, capsys):
    path = str(tmp_path / HOSTILE)
    for command in (
        ["analyze", path],
        ["analyze", path, path],
        ["report", path],
        ["report", path, "--view", "run"],
        ["compare", path, path],
    ):
        assert main(command) == 2
        captured = capsys.readouterr()
        assert "FORGED" in captured.err
        assert is_safe(captured.out + captured.err), command


def test_views_of_a_run_print_names_as_escapes(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 1_000_000}))
    for form in ("--json", "--markdown", "--verbose", "--view=run", "--view=steps"):
        assert main(["report", run, form]) == 0
        assert is_safe(capsys.readouterr().out)
    write_json({"name": HOSTILE})
    out = capsys.readouterr().out
    assert is_safe(out)
    assert json.loads(out) == {"name": HOSTILE}


def test_inspect_shows_only_clean_texts():
    inspection = Inspection(waste=(Waste("w", HOSTILE, HOSTILE),), trainers=1)
    assert is_safe(inspection_text(cleaned(inspection)))


def test_tabs_and_foreign_letters_stay():
    assert printable("a\tb é 計 🚀") == "a\tb é 計 🚀"


def test_no_command_lets_a_name_of_a_run_through(made_runs, tmp_path, capsys):
    run = str(made_runs.hostile_run(tmp_path))
    forms = ([], ["--verbose"], ["--json"], ["--markdown"])
    views = ([f"--view={name}"] for name in ("calls", "operators", "overview", "run", "traces"))
    commands = [["report", run, *form] for form in (*forms, *views)]
    commands += [["compare", run, run, *form] for form in forms]
    for command in commands:
        main(command)  # a view may be empty, and is then an error
        captured = capsys.readouterr()
        assert captured.out or captured.err
        assert is_safe(captured.out + captured.err), command
