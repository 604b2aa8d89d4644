import gzip

import pytest

from lightning_gpuprof.analysis.memory.memory_dump import read_jax_memory
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.jax.jax_memory import read_memory


@pytest.fixture
def path(tiny_traces):
    """Recorded with JAX on a CPU: 1000 x 1000 and 1000 x 100 numbers of 4 bytes were alive."""
    return tiny_traces / "jax_memory.prof"


def test_memory_is_given_by_the_line_that_allocated_it_and_by_kind(path):
    dump = read_jax_memory(str(path))

    assert dump.source == "jax-memory"
    (device,) = [device for device in dump.devices if device.device == "cpu:0"]
    assert device.peak.kind_bytes == {"buffer": 4_400_000}
    sites = [(site.line, site.function, site.bytes) for site in device.peak.sites]
    assert sites == [(7, "make", 4_000_000), (11, "project", 400_000)]


def test_a_damaged_file_is_refused_with_a_sentence(path, tmp_path):
    cut = tmp_path / "cut.prof"
    cut.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-100]))
    with pytest.raises(TraceError, match="is damaged or ends early"):
        read_memory(str(cut), [])
