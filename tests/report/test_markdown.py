import pytest
from made_documents import LINE, document, finding, verdict
from markdown_it import MarkdownIt

from lightning_gpuprof.report.document import Section
from lightning_gpuprof.report.markdown import block, code, plain, render


def test_the_document_is_its_heading_its_line_and_its_sections():
    text = render(document())
    places = [
        text.index(words)
        for words in (
            "## Profile of `logs/version_0`\n\nfit, finished, 100 steps in 1.00 s\n\n",
            "- Step time: **10.0 ms** (mean of 90 steps)\n- GPU busy: **-**\n",
            "**GPU: it waits for the host**\n",
            "- note: One rank is missing.\n",
            "**Fix first: host-sync holds the step back**\n\nDo less of host-sync.  \n"
            "Where: `train.py:12` (`loss.item()`).  \n",
            "### Where a step goes\n\nmean per step\n",
            "### What holds it back\n",
            "<details><summary>Top operators</summary>\n\n| Operator |",
            "```sh\nlightning-gpuprof compare logs/version_0 NEW_RUN\n```\n\n</details>\n",
        )
    ]
    assert places == sorted(places)


def test_a_comparison_is_headed_as_one():
    assert render(document(kind="comparison", path=None)).startswith("## Comparison of `version_0`")


def test_a_finding_is_an_entry_with_its_saving_place_and_change():
    assert (
        "1.  **host-sync holds the step back** (`host-sync`, warning)\n\n"
        "    - saves 2.0 to 3.0 ms per step (20 to 30%), 90% sure of the cause\n"
        "    - where: `train.py:12` (`loss.item()`)\n"
        "    - change: Do less of host-sync.\n\n"
        "    ```python\n    a = 1\n    b = 2\n    ```\n"
    ) in render(document())


def test_after_the_first_findings_titles_are_enough():
    cards = [finding(f"rule-{n}") for n in range(8)]
    text = render(document(*cards))
    assert text.count(" holds the step back**") == 8
    assert text.count("- change: Do less") == 6
    assert render(document(*cards), verbose=True).count("- change: Do less") == 8


def test_read_as_markdown_a_change_belongs_to_its_finding_and_nothing_else_is_markup():
    hostile = finding(
        "x", title="<b> *a* | `b` __init__ [x](y)", advice="# ``` 1. x", change="```\nx"
    )
    tokens = MarkdownIt().enable("table").parse(render(document(*[hostile] * 6)))
    fences = [token for token in tokens if token.type == "fence" and token.info == "python"]
    assert [(token.content, token.level) for token in fences] == [("```\nx\n", 2)] * 6
    assert sum(token.type == "ordered_list_open" for token in tokens) == 1
    text = [token for token in tokens if token.type == "inline" and "init" in token.content]
    kinds = {child.type for token in text for child in token.children}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "code_inline"}


def test_bars_are_a_table_with_the_devices_column_where_it_was_measured():
    assert (
        "|  | Mean | Share | Device, including idle |\n|---|--:|--:|--:|\n"
        "| Forward | 6.00 ms | 60.0% | 7.00 ms |\n| &emsp;net.head | 2.00 ms | 20.0% |  |\n"
    ) in render(document())


def test_a_table_shows_its_first_rows_and_pipes_in_names_are_escaped():
    text = render(document())
    assert (
        "| Operator | Line | Device self | Share | Calls |\n|---|---|--:|--:|--:|\n"
        "| `aten::mm` | `train.py:12` (`loss.item()`) | 4.00 ms | 40% | 12,000 |\n"
        "| &emsp;`a\\|b` |  | 1.00 ms | - | 2 |\n\n"
    ) in text
    assert "aten::add" not in text
    assert "| `aten::add` |" in render(document(), verbose=True)


def test_sections_for_verbose_are_left_out_unless_asked_for():
    assert "Does it wait?" not in render(document())
    assert "| look | 40% | Does it wait? Look there. |" in render(document(), verbose=True)


def test_the_change_of_a_verdict_without_a_finding_is_code():
    own = verdict(kind="failed", label="This run ended", finding=None, change="batch_size=2")
    text = render(document(sections=(Section("failure", "", "first", (own,)),)))
    assert "**This run ended: host-sync holds the step back**" in text
    assert "```python\nbatch_size=2\n```" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("num_workers=2", "num_workers=2"),
        ("__getitem__ of _x", r"\_\_getitem\_\_ of \_x"),
        ("a[:, None] * `b`", r"a\[:, None\] \* \`b\`"),
        ("<module> & co", r"\<module> &amp; co"),
        ("> 3 -> 4", r"\> 3 -> 4"),
        ("@torch.compile, #12", "@<!-- -->torch.compile, #<!-- -->12"),
        ("two\nlines", "two lines"),
    ],
)
def test_text_is_not_taken_for_markup(text, shown):
    assert plain(text) == shown


def test_code_may_hold_backticks():
    assert code("a``b") == "``` a``b ```"
    assert block("'''```'''") == "````python\n'''```'''\n````"


def test_places_are_named_once_and_the_first_three():
    places = (LINE, LINE, *(type(LINE)(file="m.py", line=n) for n in range(5)))
    text = render(document(finding("x", places=places)))
    assert "- where: `train.py:12` (`loss.item()`), `m.py:0`, `m.py:1`\n" in text
