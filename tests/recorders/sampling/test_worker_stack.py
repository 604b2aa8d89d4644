import sys

import torch

from lightning_gpuprof.recorders.sampling.worker_stack import Doing, where_in_worker
from lightning_gpuprof.records.phases import Phase

TORCH = torch.__file__.replace("__init__.py", "")
LOOP = TORCH + "utils/data/_utils/worker.py"
FETCH = TORCH + "utils/data/_utils/fetch.py"
COLLATE = TORCH + "utils/data/_utils/collate.py"
USER = "/program/data.py"


def look(*functions):
    """Call functions of given files and names, each from the one before; look from the last."""
    found = []
    inner = lambda: found.append(where_in_worker(sys._getframe(1)))  # noqa: E731
    for file, name in reversed(functions):
        space = {"inner": inner, "__name__": "torch.utils" if file.startswith(TORCH) else "data"}
        exec(compile(f"def {name}():\n    inner()", file, "exec"), space)
        inner = space[name]
    inner()
    return found[0]


def test_a_users_line_within_a_fetch_is_work():
    seen = look((LOOP, "_worker_loop"), (FETCH, "fetch"), (USER, "__getitem__"))
    assert seen.doing is Doing.WORK
    assert seen.at == (Phase.DATA_WAIT, USER, 2, "__getitem__", None, None)


def test_the_innermost_line_of_the_user_is_named_with_what_it_calls():
    functions = [(FETCH, "fetch"), (USER, "collate"), (USER, "pad"), (COLLATE, "default_collate")]
    at = look((LOOP, "_worker_loop"), *functions).at
    assert (at.file, at.function, at.callee, at.kind) == (
        USER,
        "pad",
        "torch.default_collate",
        "torch",
    )


def test_work_outside_the_users_code_has_no_line_but_a_name():
    at = look((LOOP, "_worker_loop"), (FETCH, "fetch"), (COLLATE, "default_collate")).at
    assert (at.file, at.callee) == ("", "torch.default_collate")
    assert look((LOOP, "_worker_loop"), (FETCH, "fetch")).at.callee is None


def test_waiting_for_work_and_handing_a_batch_over_are_told_apart():
    assert look((LOOP, "_worker_loop"), (LOOP, "get")) == (Doing.WAIT, None)
    assert look((LOOP, "_worker_loop"), (LOOP, "put")) == (Doing.HANDOVER, None)
    assert look((LOOP, "_worker_loop")) == (Doing.HANDOVER, None)
    # An iterable dataset's worker makes its iterator while others are started.
    assert look((LOOP, "_worker_loop"), (FETCH, "create_fetcher")).doing is Doing.HANDOVER


def test_outside_a_workers_loop_there_is_nothing_to_see():
    assert look((FETCH, "fetch"), (USER, "__getitem__")) is None
    assert look((USER, "_worker_loop"), (FETCH, "fetch")) is None
    assert where_in_worker(None) is None
