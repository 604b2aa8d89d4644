from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from lightning_gpuprof.tensors import count_samples, tensor_bytes

Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    image: torch.Tensor
    name: str = "x"


X = torch.zeros(6, 3)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (X, 6),
        ([X, X], 6),
        ({"a": {"b": X}}, 6),
        (Pair(X, torch.zeros(6)), 6),
        (Sample(X), 6),
        ({"weights": torch.zeros(2), "x": X, "y": torch.zeros(6)}, 6),
        ({"scale": torch.tensor(1.0), "x": X}, 6),
        (pack_sequence([torch.zeros(3), torch.zeros(2)]), 2),
        (SimpleNamespace(num_graphs=5, x=torch.zeros(90, 3)), 5),
        ((SimpleNamespace(batch_size=4), torch.zeros(9)), 4),
        (SimpleNamespace(batch_size=torch.Size([7, 2])), 7),
        (([torch.zeros(3, 8, 8)] * 2, [{"boxes": X}, {"boxes": X}]), 2),
        ("text", None),
        (None, None),
        (torch.tensor(1.0), None),
        ([], None),
    ],
    ids=repr,
)
def test_samples_are_counted_from_the_batch_itself(batch, samples):
    assert count_samples(batch) == samples


def test_a_sparse_tensor_has_the_bytes_of_what_it_holds():
    graph = torch.eye(3).to_sparse()
    assert tensor_bytes({"graph": graph, "labels": torch.zeros(3)}) == 24
    assert tensor_bytes(graph.to_sparse_csr()) >= 0
