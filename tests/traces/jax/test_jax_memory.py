import gzip

import pytest

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.jax.jax_memory import read_memory
from lightning_gpuprof.views.documents.other_files import other_payload


@pytest.fixture
def path(tiny_traces):
    """Recorded with JAX on a CPU: 1000 x 1000 and 1000 x 100 numbers of 4 bytes were alive."""
    return tiny_traces / "jax_memory.prof"


def test_memory_is_given_by_the_line_that_allocated_it_and_by_kind(path):
    document = other_payload(str(path))

    assert document["source"] == "jax-memory"
    (device,) = [one for one in document["devices"] if one["device"] == "cpu:0"]
    assert device["peak"]["kind_bytes"] == {"buffer": 4_400_000}
    sites = [(one["line"], one["function"], one["bytes"]) for one in device["peak"]["sites"]]
    assert sites == [(7, "make", 4_000_000), (11, "project", 400_000)]


def test_a_damaged_file_is_refused_with_a_sentence(path, tmp_path):
    cut = tmp_path / "cut.prof"
    cut.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-100]))
    with pytest.raises(TraceError, match="is damaged or ends early"):
        read_memory(str(cut), [])
