import pytest

from lightning_gpuprof.paths import short_path
from lightning_gpuprof.report.document import Place


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The home and, in it, the working folder."""
    home = tmp_path / "home"
    work = home / "projects" / "vision" / "training"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    return home, work


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("/env/lib/python3.12/site-packages/torch/nn/module.py", "torch/nn/module.py"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"),
        ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
        ("/usr/lib/python3.13t/json/decoder.py", "json/decoder.py"),
        ("/scratch/lib/data.py", "/scratch/lib/data.py"),
        ("train.py", "train.py"),
        ("In[3]", "In[3]"),
    ],
)
def test_a_module_begins_with_its_package_and_other_paths_stay(file, short):
    assert short_path(file) == short


def test_a_file_is_relative_to_the_folder_from_which_that_is_shortest(folders):
    home, work = folders
    assert short_path(str(work / "models" / "net.py")) == "models/net.py"
    assert short_path(str(work.parent / "data.py")) == "../data.py"
    assert short_path(str(home / "shared" / "data.py")) == "~/shared/data.py"


def test_a_place_keeps_its_path_beside_the_short_one(folders):
    home, _ = folders
    place = Place(file=str(home / "shared" / "data.py"), line=3)
    assert (place.file, place.short_file) == (str(home / "shared" / "data.py"), "~/shared/data.py")
    assert Place(file="train.py", line=3).short_file is None


def test_the_path_stays_where_the_working_folder_was_deleted(folders):
    _, work = folders
    work.rmdir()
    assert short_path("/scratch/data.py") == "/scratch/data.py"
