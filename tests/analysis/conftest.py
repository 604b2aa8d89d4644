"""Generated traces: `st.from_type(SyntheticSpec)` describes any, `read_synthetic` makes one."""

import pytest
from analyzed import analyze_timeline
from hypothesis import strategies as st
from synthetic import CAUSES, SyntheticSpec, write_synthetic

from lightning_gpuprof.traces import ReadOptions, open_timeline

st.register_type_strategy(
    SyntheticSpec,
    st.builds(
        SyntheticSpec,
        steps=st.integers(1, 3),
        kernels_per_burst=st.integers(1, 6),
        kernel_ns=st.integers(8_000, 50_000),
        gaps_ns=st.dictionaries(st.sampled_from(CAUSES), st.integers(10_000, 90_000)),
        copy_ns=st.integers(3_000, 20_000),
        comm_ns=st.integers(0, 8_000),
        exposed_comm_ns=st.just(0),
        devices=st.integers(1, 2),
        stack_depth=st.integers(0, 1),
        shuffle=st.booleans(),
        bare_list=st.booleans(),
    ),
)


@pytest.fixture(scope="session")
def read_synthetic(tmp_path_factory):
    """Write a generated trace and read it back."""

    def read(spec, options=None):
        path = tmp_path_factory.mktemp("synthetic") / "trace.json"
        write_synthetic(path, spec)
        return open_timeline(str(path), options)

    return read


@pytest.fixture
def analysed(write_trace):
    """Analyse a trace of these events."""

    def analyse(*events, **options):
        return analyze_timeline(open_timeline(write_trace(events), ReadOptions(**options)))

    return analyse
