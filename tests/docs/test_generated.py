import importlib.util
import re
import sys
from pathlib import Path

import pytest
from document_samples import SAMPLES

from lightning_gpuprof.report.document import Figures, Table

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = DOCS.parent / "lightning_gpuprof/report/document.py"
MS = 1_000_000


def generated():
    sys.path.append(str(DOCS / "tools"))  # for the modules beside generate.py
    spec = importlib.util.spec_from_file_location("generate", DOCS / "tools/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


PAGES = generated()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run: make docs"


def test_no_field_of_argparse_is_left_in_the_page_of_commands():
    assert "%(" not in PAGES["reference/commands.md"]


def test_the_page_of_json_has_every_class_of_the_document():
    classes = re.findall(r"^class (\w+)\(Struct", DOCUMENT.read_text(), re.MULTILINE)
    headings = re.findall(r"^## (\w+)", PAGES["reference/json.md"], re.MULTILINE)
    assert {"Document", "FindingCard", "Table"} <= set(classes) <= set(headings)


def test_every_part_and_recorder_says_what_it_costs_and_touches_and_when():
    page = PAGES["reference/what-it-touches.md"]
    _, *parts = re.split(r"^##+ (?!Recorders)", page, flags=re.MULTILINE)
    lacking = {
        (part.partition("\n")[0], entry)
        for part in parts
        for entry in ("Costs", "Touches", "When")
        if f"\n- {entry}: " not in part
    }
    assert not lacking, "its docstring lacks the entry"


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_page_of_json_has_every_section_table_and_figure_of_a_kind(kind, tmp_path):
    words = set(re.findall(r"\w+", PAGES["reference/json.md"]))
    names = {name for sample in SAMPLES[kind](tmp_path).values() for name in names_in(sample)}
    assert names - words == set()


def names_in(document):
    for section in document.sections:
        yield section.id
        for part in section.body:
            if isinstance(part, Table):
                yield part.id
                yield from (column.key for column in part.columns if column.key != "label")
            if isinstance(part, Figures):
                yield from (figure.key for figure in part.figures)
