"""docs/reference/safety.md: what holds each promise exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "safety.md").read_text(encoding="utf-8")
HEADS = ("| promise |", "|---")
ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("held", sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE))))
def test_a_test_that_the_page_names_exists(held):
    file, _, name = held.partition("::")
    assert (ROOT / file).exists()
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") if name else True


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make (\w+)`", PAGE))))
def test_a_command_that_the_page_names_exists(target):
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_each_promise_names_what_holds_it():
    promises = [row for row in ROWS if not row.startswith(HEADS)]
    assert promises
    assert [row for row in promises if not re.search(r"`(tests/|make )", row)] == []
