import pytest


class FakeProcess:
    returncode = None
    said = ""

    def poll(self):
        return self.returncode

    def communicate(self):
        return None, self.said

    def end(self, code, said=""):
        self.returncode, self.said = code, said


class Starter(dict):
    """Starts processes that end when they are told to, by (kind, path, ...)."""

    def __call__(self, *work):
        self[work] = FakeProcess()
        return self[work]


@pytest.fixture
def started():
    """A `Starter`, empty so far."""
    return Starter()
