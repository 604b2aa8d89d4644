import io
import re

import pytest
from made_documents import LINE, MS, document, finding, saving, verdict

from lightning_gpuprof.report.console import SCREEN, render, render_for
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Column,
    Document,
    Figure,
    Figures,
    Place,
    Section,
    Table,
    Text,
)


def lines(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def bars(count):
    values = range(count, 0, -1)
    own = tuple(Bar(f"p{n}", f"phase {n}", n * MS, n / sum(values)) for n in values)
    return Section("phases", "Where a step goes", "first", (Bars("phases", "ns", own),))


def test_the_first_screen_is_in_the_order_of_the_document():
    text = render(document())
    places = [
        text.index(words)
        for words in (
            "logs/version_0: fit, finished, 100 steps in 1.00 s\n",
            "Step time  10.0 ms (mean of 90 steps)",
            "GPU busy   -",
            "GPU: it waits for the host",
            "note: One rank is missing.",
            "FIX FIRST\n  host-sync holds the step back\n",
            "  where   train.py:12 `loss.item()`\n",
            "  change  Do less of host-sync.\n          a = 1\n          b = 2\n",
            "  gain    a step of 7.5 ms",
            "WHERE A STEP GOES (mean per step)",
            "Forward",
            "WHAT HOLDS IT BACK",
            "TOP OPERATORS",
        )
    ]
    assert places == sorted(places)


def test_what_the_verdict_says_is_not_said_again_unless_everything_is_asked_for():
    assert render(document()).count("Do less of host-sync.") == 1
    assert " 2. [info] slow-logging" in render(document())
    assert render(document(), verbose=True).count("Do less of host-sync.") == 2
    alone = render(document(finding()))
    assert "WHAT HOLDS IT BACK" not in alone


def test_bars_keep_the_largest_within_the_first_screen_and_still_add_up():
    text = render(document(sections=(bars(60),)))
    table = text[text.index("WHERE A STEP GOES") :].splitlines()[1:]
    assert len(text.splitlines()) <= SCREEN - 1
    assert table[0].split()[:3] == ["phase", "60", "60.0"]
    rest = sum(range(1, 60 - len(table) + 2))
    assert f"{60 - len(table) + 1} smaller" in table[-1]
    assert f"{rest / 1000:.2f} s" in table[-1] or f"{rest} ms" in table[-1]
    assert len(render(document(sections=(bars(60),)), verbose=True).splitlines()) == 63


def test_bars_that_are_short_on_both_clocks_are_a_row_unless_verbose():
    assert "2 smaller 40.0 µs 0.4% 10.0 µs" in lines(render(document()))
    assert "Zero grad 10.0 µs 0.1% 10.0 µs" in lines(render(document(), verbose=True))
    longer = (Bar("a", "A", 990, 0.99), Bar("b", "B", 1, 0.001, device_value=400))
    part = Bars("phases", "ns", longer, device_label="Device")
    text = render(document(sections=(Section("phases", "P", "first", (part,)),)))
    assert "B 1 ns 0.1% 400 ns" in lines(text)


def test_the_first_notes_are_short_and_follow_in_full():
    long = "word " * 80 + "end."
    sections = (
        Section("notices", "", "first", (Text((long, "second", "third"), "note"),)),
        bars(3),
    )
    text = render(document(sections=sections), width=80)
    assert text.index("note: second") < text.index("WHERE A STEP")
    assert text.index("WHERE A STEP") < text.index("end.") < text.index("note: third")


def test_findings_after_the_sixth_are_titles_unless_verbose():
    cards = tuple(finding(f"rule-{n}") for n in range(8))
    text = render(document(*cards))
    assert "8. [warning] rule-7" in text
    assert "Do less of rule-5." in text
    assert "Do less of rule-6." not in text
    assert "--verbose shows the changes" in text
    verbose = render(document(*cards), verbose=True)
    assert "Do less of rule-7." in verbose
    assert "--verbose has" not in verbose


def test_an_info_finding_says_its_saving_or_what_to_do_where_it_has_none():
    none = finding("slow-python", severity="info", saving=None)
    small = finding("slow-logging", severity="info")
    text = render(document(small, none))
    assert "slow-python  Do less of slow-python." in text
    assert "slow-logging  saves 2.0 to 3.0 ms" in text
    assert "Do less of slow-logging." not in text


def test_evidence_is_for_verbose_and_a_place_that_the_title_names_is_not_said_again():
    named = finding("slow-callback", title="EMA takes long", places=(Place(name="EMA"),))
    elsewhere = finding("slow-callback", places=(Place(name="LRFinder", phase="callbacks"),))
    assert "evidence" not in render(document(named))
    text = render(document(named), verbose=True)
    assert "evidence       wait: 2.00 ms" in text
    assert re.search(r"^ +where ", text, re.M) is None
    assert re.search(r"^ +where +LRFinder$", render(document(elsewhere)), re.M)


def test_a_saving_of_nothing_says_why():
    nothing = finding("a", saving=None, no_saving="measured (x): it saves nothing")
    assert "a       measured (x): it saves nothing" in render(document(nothing))


def test_a_table_shows_its_first_rows_its_filled_columns_and_levels():
    brief, verbose = lines(render(document())), lines(render(document(), verbose=True))
    assert "Operator Line Device self Share Calls" in brief
    assert "aten::mm train.py:12 `loss.item()` 4.00 ms 40% 12,000" in brief
    assert not any(line.startswith("aten::add") for line in brief)
    assert "Operator Line Device self Share Calls Stack" in verbose
    assert any(line.startswith("aten::add") for line in verbose)
    assert "    a|b " in render(document())


def test_a_rows_state_and_note_stand_with_it():
    text = lines(render(document(), verbose=True))
    assert "look 40% Does it wait? Look there." in text
    assert "- Is it full?" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = tuple({"name": "void kernel<" + "int, " * 40 + ">", "ns": n * MS} for n in range(3))
    columns = (Column("name", "Kernel", "code"), Column("ns", "Time", "ns"))
    sections = (Section("kernels", "Kernels", "page", (Table("k", columns, rows),)),)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    for made in (document(), document(sections=sections)):
        text = render_for(made, stream, verbose=True)
        wrapped = [line for line in text.splitlines() if "compare" not in line]
        assert max(map(len, wrapped)) <= width
    assert "void kernel<int" in text
    assert "2.00 ms\n" in text


def test_of_a_path_that_is_too_long_file_and_line_are_kept():
    place = Place(file="a/" * 60 + "train.py", line=7)
    columns = (Column("place", "Line", "place"), Column("ns", "Time", "ns"))
    part = Table("lines", columns, ({"place": place, "ns": MS},))
    text = render(document(sections=(Section("lines", "Lines", "page", (part,)),)), width=60)
    assert re.search(r"\.\.\.[a/]+train\.py:7 +1.00 ms", text)


def test_a_difference_that_shows_nothing_is_dim_and_says_so_on_its_line():
    columns = (
        Column("name", "Operator", "code"),
        Column("diff", "Difference", "ns", difference=True),
        Column("noise", "", "text"),
    )
    sure = {"name": "aten::add", "diff": 2 * MS, "noise": "beyond noise"}
    unsure = {"name": "a" * 90, "diff": -MS, "noise": "too few steps", "state": "neutral"}
    section = Section("operators", "Operators", "page", (Table("o", columns, (sure, unsure)),))
    text = render(document(sections=(section,)), color=True, width=60)
    assert re.search(r"a+\.\.\. +\x1b\[2m-1.00 ms\x1b\[0m  too few steps", text)
    assert re.search(r"aten::add +2.00 ms  beyond noise", text)


def test_a_pipe_gets_no_colours_and_an_ascii_terminal_no_bars():
    pipe = render_for(document(), io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert "\x1b" not in pipe
    assert pipe.isascii()
    assert "######" in pipe
    assert "\x1b" in render(document(), color=True)


def test_colours_follow_no_color(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert "\x1b" in render_for(document(), stream)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render_for(document(), stream)


def test_a_name_in_brackets_is_text_and_no_markup():
    text = render(document(finding("x", title="[bold]Mine[/bold] takes long")))
    assert "[bold]Mine[/bold] takes long" in text


def test_a_document_without_sections_is_its_first_line():
    made = document()
    assert render(Document(made.schema_version, made.subject, ())) == (
        "logs/version_0: fit, finished, 100 steps in 1.00 s\n"
    )


def test_a_verdict_without_a_finding_is_its_title_and_sentence():
    nothing = dict.fromkeys(("finding", "change", "place", "gain"))
    limit = verdict(kind="limit", label="Verdict", title="The GPU is the limit", **nothing)
    text = render(document(sections=(Section("verdict", "", "first", (limit,)),)))
    assert "VERDICT\n  The GPU is the limit\n  Do less of host-sync.\n" in text


def test_figures_of_a_page_are_a_row_each_and_not_measured_is_a_dash():
    part = Figures(
        (Figure("memory", "memory", None, "bytes"), Figure("line", "at", LINE, "place", "a note"))
    )
    text = render(document(sections=(Section("rest", "The rest", "page", (part,)),)))
    assert "THE REST\n  memory  -\n  at      train.py:12 (a note)\n" in text


def test_a_measured_saving_reads_as_its_sentence():
    measured = saving(measured="pin_memory", sentence="saves 2.00 ms, measured (pin_memory)")
    assert "saves 2.00 ms, measured (pin_memory)" in render(document(finding("x", saving=measured)))
