import linecache
import sys
from types import SimpleNamespace

import pytest

from lightning_gpuprof.runtime.places import USER, package_of, shown, shown_path

CELLS = {"/tmp/ipykernel_7/1234.py": 3, "<ipython-input-4-0a1b2c>": 4}


@pytest.fixture
def shell(monkeypatch):
    """IPython, as far as it tells which cell a name stands for."""

    def named(name):
        return ("Cell", f"In[{CELLS[name]}]") if name in CELLS else None

    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=named))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


@pytest.mark.parametrize("name", [*CELLS, "<stdin>", "<python-input-2>"])
def test_what_is_typed_in_is_the_users_own(name):
    assert package_of(name) == USER


@pytest.mark.parametrize("name", ["<string>", "<frozen importlib._bootstrap>", "<eval_with_key>.3"])
def test_what_is_generated_is_not(name):
    assert package_of(name) != USER


@pytest.mark.parametrize(("name", "cell"), CELLS.items())
def test_a_cell_is_named_by_its_number_with_its_text(shell, monkeypatch, name, cell):
    monkeypatch.setitem(linecache.cache, name, (2, None, ["x = 1\n", "y = x + 1\n"], name))
    place = shown((name, 2, "step"))
    assert (place.file, place.line, place.source) == (f"In[{cell}]", 2, "y = x + 1")


def test_files_stay_files(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "train.py")) == "train.py"
    assert shown_path("<stdin>") == "<stdin>"
