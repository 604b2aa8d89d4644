import numpy as np
import pytest
import torch

from lightning_gpuprof.probes.latency.agreement import compare_results

NAN = float("nan")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.tensor([1.0, NAN, float("inf")]), torch.tensor([1.0, NAN, float("inf")])),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.bfloat16)),
        ({"a": [1, None], "b": "text"}, {"a": (1, None), "b": "text"}),
        (np.ones(3), torch.ones(3)),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
        (torch.empty(0, 3), torch.empty(0, 3)),
    ],
)
def test_equal_results_agree_across_containers_libraries_and_types(first, second):
    assert compare_results(first, second, 1e-6).agrees


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (torch.ones(2), torch.ones(3), r"result: shape \(2,\) against \(3,\)"),
        ({"a": 1}, {"b": 1}, r"result: keys \['a'\] against \['b'\]"),
        ([torch.ones(2), torch.ones(2)], [torch.ones(2), torch.zeros(2)], r"result\[1\]: 2 of 2"),
        (torch.tensor([1.0]), torch.tensor([NAN]), "result: 1 of 1 values differ"),
        ("left", "right", "result: 'left' against 'right'"),
        (None, torch.ones(1), "result: None against tensor"),
    ],
)
def test_a_difference_names_its_place(first, second, reason):
    import re

    found = compare_results(first, second, 1e-2)

    assert not found.agrees
    assert re.search(reason, found.reason)


def test_the_error_is_absolute_and_the_tolerance_grows_with_the_value():
    found = compare_results(torch.tensor([1000.0]), torch.tensor([1005.0]), 1e-2)

    assert found.agrees
    assert found.max_error == 5
