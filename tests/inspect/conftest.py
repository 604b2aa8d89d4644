import pytest
from inspected import forget_compilations


@pytest.fixture(autouse=True)
def no_earlier_compile_events():
    """Let each test begin as a new process does."""
    forget_compilations()
