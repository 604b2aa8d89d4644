"""The default parts and the lint ignores; `make figures` prints both, with sizes."""

import importlib.util
from pathlib import Path

import pytest

FIGURES = Path(__file__).parents[2] / "benchmarks" / "figures.py"


@pytest.fixture(scope="module")
def figures():
    if not FIGURES.exists():
        pytest.skip("the benchmarks are not part of this copy of the sources")
    spec = importlib.util.spec_from_file_location("figures", FIGURES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_lint_ignore_has_its_reason_behind_it(figures):
    assert list(figures.bare_ignores()) == []


def test_there_are_at_most_nine_default_parts_and_each_has_a_switch(figures):
    parts = figures.default_parts()
    assert len(parts) <= 9
    assert all(parts.values()), parts


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("x = 1  # noqa: E731", True),
        ("x = 1  # noqa", True),
        ("x = 1  # noqa: E731 - shorter than a function", False),
        ("x = 1  # noqa: E731  # as above", False),
        ("x = 1", False),
    ],
)
def test_an_ignore_needs_a_reason_behind_its_code(figures, monkeypatch, tmp_path, line, bare):
    (tmp_path / "lightning_gpuprof").mkdir()
    (tmp_path / "lightning_gpuprof" / "a.py").write_text(line + "\n")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    assert list(figures.bare_ignores()) == (["lightning_gpuprof/a.py:1"] if bare else [])
