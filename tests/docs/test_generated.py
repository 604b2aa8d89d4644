import importlib.util
import json
import re
from pathlib import Path

import pytest
from made_records import memory

from lightning_gpuprof.records.schema import (
    Advice,
    Device,
    Loader,
    Note,
    OutsideSpan,
    ProbeDisabled,
    ProfilerCycle,
    Scalars,
    SyncSite,
)
from lightning_gpuprof.report.comparison import compare_runs, compare_several
from lightning_gpuprof.report.document import Figures, Table
from lightning_gpuprof.views.documents.report import load_report

DOCS = Path(__file__).parents[2] / "docs"
MS = 1_000_000
NAMES_OF_THE_USER = {"phase_ns", "part_ns", "versions", "trainer", "model", "loader", "config"}
NAMES_OF_THE_USER |= {"details", "kind_bytes", "phase_mean_ns", "evidence"}
NAMES_OF_THE_USER |= {"operators"}


def generated():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


PAGES = generated()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run: make docs"


def test_no_field_of_argparse_is_left_in_the_page_of_commands():
    assert "%(" not in PAGES["commands.md"]


def test_every_key_of_the_report_is_documented(make_session, write_run):
    site = SyncSite(
        file="train.py",
        line=3,
        function="f",
        source="x.item()",
        owner="user",
        operation="item",
        count=1,
        steps_watched=1,
    )
    records = [
        memory(1),
        site,
        Advice(step=50, batch_size=8),
        Note(step=0, name="n"),
        OutsideSpan(where="setup", start_ns=0, dur_ns=1, phase_ns={"other": 1}),
        ProbeDisabled(probe="p", step=1, error="e", traceback="t"),
        ProfilerCycle(cycle=0, first_step=1, last_step=2, trace_file="t.gz"),
    ]
    callbacks = [9 * MS if step == 7 else MS for step in range(100)]
    run = write_run(
        make_session(
            {"data_wait": 6 * MS, "callbacks": callbacks},
            parts={"callbacks/A": callbacks},
            flags=[1 if step == 0 else 0 for step in range(100)],
            columns={"device_dur": MS, "device/callbacks": MS, "run_ahead/callbacks": 1},
            device=Device(type="cuda"),
            loader=Loader(num_workers=0),
            records=records,
        )
    )
    payload = json.loads(json.dumps(load_report(run).payload()))
    words = set(re.findall(r"\w+", (DOCS / "json.md").read_text(encoding="utf-8")))
    undocumented = set(keys_of(payload)) - words - {phase for phase in payload["phases"]}
    assert undocumented == set()


def test_every_section_table_and_figure_of_a_comparison_is_documented(make_session, write_run):
    records = [memory(1), Scalars(steps=[0], values={"loss": [1.0]})]
    base = write_run(make_session({"forward": MS}, records=records, cpu_count=2), name="base")
    new = write_run(make_session({"forward": 2 * MS}, records=records, cpu_count=4), name="new")
    documents = [compare_runs(base, new).document(), compare_several(base, new).document()]
    names = {name for document in documents for name in names_in(document)}
    numbered = {name for name in names if name.removesuffix("_1") in names}
    words = set(re.findall(r"\w+", (DOCS / "json.md").read_text(encoding="utf-8")))
    assert names - numbered - words == set()


def names_in(document):
    for section in document.sections:
        yield section.id
        for part in section.body:
            if isinstance(part, Table):
                yield part.id
                yield from (column.key for column in part.columns if column.key != "label")
            if isinstance(part, Figures):
                yield from (figure.key for figure in part.figures)


def keys_of(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in NAMES_OF_THE_USER:
                yield from keys_of(item)
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)
