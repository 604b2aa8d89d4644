"""Data sets whose worker processes take the samples of their stacks themselves, and helpers."""

import random
import threading

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from lightning_gpuprof.recorders.sampling.pacing import SampleTiming
from lightning_gpuprof.recorders.sampling.worker_sampling import THREAD

begun = []


def begin(worker_id):
    """A program's `worker_init_fn`."""
    begun.append(worker_id)


def fail(worker_id):
    raise ValueError("planted in worker_init_fn")


def sample():
    """Take a sample as the thread of this worker would, if it has one."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            sampling = thread._args[0].func.__self__
            worker_sample = sampling.take_sample()
            if worker_sample is not None:
                sampling.add_sample(worker_sample, SampleTiming())


class Looked(Dataset):
    """Rows of a worker's random numbers, made at two lines."""

    def __init__(self, length=40):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        sample()
        drawn = [random.random(), float(np.random.rand()), float(torch.rand(1))]
        return torch.tensor([*drawn, float(len(begun))])


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for index in range(20):
            sample()
            yield torch.full((4,), float(info.id + index))


def gather(rows):
    """A program's collate function."""
    sample()
    return torch.stack(rows)
