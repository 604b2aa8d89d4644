import math
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lightning_gpuprof.recorders.sampling.library_calls import called_library

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="before 3.11 an instruction does not know its expression"
)
found = []


class Asks:
    """Looks at whoever called the function that it was handed to."""

    def _look(self, *_, **__):
        frame = sys._getframe(1)
        found.append(called_library(frame))
        as_torch = dict.fromkeys(("math", "np"), torch)
        found.append(
            called_library(
                SimpleNamespace(f_code=frame.f_code, f_lasti=frame.f_lasti, f_globals=as_torch)
            )
        )
        return 3

    __floor__ = __len__ = __index__ = _look

    def __array__(self, *_, **__):
        frame = sys._getframe(1)
        found.append(called_library(frame))
        return np.zeros(1)


@pytest.fixture(autouse=True)
def forget():
    found.clear()


def test_a_function_written_in_c_is_named_by_the_package_it_comes_from():
    math.floor(Asks())
    np.asarray(
        Asks(),
    )
    assert (found[0], found[2]) == ("math.floor", "numpy.asarray")


def test_an_operator_of_torch_is_the_models():
    math.floor(Asks())
    assert found[1] is None


def test_what_is_built_in_may_go_through_tensors_and_is_not_told():
    len(Asks())
    assert found[0] is None


def test_a_local_name_is_not_looked_at():
    library = math
    library.floor(Asks())

    def inner():
        return library.floor(Asks())

    inner()
    assert found[::2] == [None, None]


def test_a_file_that_cannot_be_read_names_nothing():
    exec(compile("math.floor(asks)", "not there", "exec"), {"math": math, "asks": Asks()})
    assert found[0] is None


def test_no_filter_of_warnings_is_touched_by_an_odd_line(tmp_path, monkeypatch):
    """The sampler is in another thread: `catch_warnings` there would change the program's."""
    path = tmp_path / "train.py"
    path.write_text(r'math.floor(asks if "\d(" else 0)')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(path.read_text(), str(path), "exec")
    with monkeypatch.context() as patched:
        patched.setattr(warnings, "catch_warnings", None)
        exec(code, {"math": math, "asks": Asks()})
    assert found[0] == "math.floor"
