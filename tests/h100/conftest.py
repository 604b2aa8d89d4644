import pytest
from recorded import lay_out


@pytest.fixture(scope="session")
def h100(tmp_path_factory):
    """A log dir with the runs of tests/data/h100."""
    return lay_out(tmp_path_factory.mktemp("logs") / "h100")
