"""Batches of any size from a loader, with real tensors."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, TensorDataset

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.loader_batches import SAMPLES_READ, batches_like


class Stream(IterableDataset[Tensor]):
    def __init__(self, samples: int, shape: tuple[int, ...] = (3,)) -> None:
        self.samples, self.shape = samples, shape

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.full(self.shape, float(index)) for index in range(self.samples))


def like(loader, first=None):
    first = next(iter(loader)) if first is None else first
    return batches_like(loader, first, lambda batch: batch)


def test_samples_are_collated_by_the_loaders_own_function():
    def pad(samples):
        return {"text": torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)}

    texts = [torch.ones(length) for length in (1, 4, 2)]
    batches = like(DataLoader(texts, batch_size=2, collate_fn=pad))
    assert (batches.own_size, batches.samples) == (2, 3)
    assert batches.batch(1)["text"].shape == (1, 1)
    assert batches.batch(7)["text"].shape == (7, 4)


def test_a_short_dataset_is_repeated():
    batches = like(DataLoader(TensorDataset(torch.arange(3.0)), batch_size=32))
    assert (batches.own_size, batches.samples) == (32, 3)
    assert batches.batch(7)[0].tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_a_batch_sampler_of_the_users_chooses_the_samples():
    data = torch.arange(10.0)
    sampler = BatchSampler(range(9, -1, -1), batch_size=4, drop_last=False)
    batches = like(DataLoader(data, batch_sampler=sampler))
    assert batches.own_size == 4
    assert batches.batch(5).tolist() == [9, 8, 7, 6, 5]


def test_a_large_dataset_is_read_only_at_its_beginning():
    read = []

    class Counted(torch.utils.data.Dataset):
        def __len__(self):
            return 10_000

        def __getitem__(self, index):
            read.append(index)
            return torch.zeros(1)

    batches = like(DataLoader(Counted(), batch_size=2), torch.zeros(2, 1))
    assert batches.batch(5000).shape == (5000, 1)
    assert (len(read), batches.samples) == (SAMPLES_READ, 10_000)


def test_a_stream_of_samples_has_no_known_number_of_them():
    batches = like(DataLoader(Stream(5), batch_size=2))
    assert (batches.own_size, batches.samples) == (2, None)
    assert batches.batch(7)[:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1]


def test_a_stream_of_batches_gives_its_first_with_another_length():
    batches = like(DataLoader(Stream(5, (4, 3)), batch_size=None))
    assert (batches.own_size, batches.samples) == (4, None)
    assert batches.batch(9).shape == (9, 3)
    assert "one that makes whole batches, here of 4." in batches.note


def test_several_loaders_give_the_batch_of_all_with_another_length():
    loaders = {"a": [0], "b": [0]}  # what they are does not matter: the first batch is known
    first = {"a": torch.zeros(4, 3), "b": (torch.zeros(4), torch.zeros(()))}
    batch = like(loaders, first).batch(6)
    assert batch["a"].shape == (6, 3)
    assert [part.shape for part in batch["b"]] == [(6,), ()]


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ((torch.zeros(4, 3), torch.zeros(9)), "whose tensors have lengths of 4 and 9"),
        ("text", "whose tensors are unknown"),
    ],
)
def test_batches_that_cannot_be_made_longer_are_refused_with_the_remedy(first, message):
    with pytest.raises(ConfigError, match=f"{message}. Pass --model"):
        like([first], first)
