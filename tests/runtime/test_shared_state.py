from collections import deque

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from lightning_gpuprof.runtime.run_start import run_start
from lightning_gpuprof.runtime.shared_state import shared_with


class Holds(Dataset):
    def __init__(self, **held):
        vars(self).update(held)


class Streams(IterableDataset, Holds):
    def __iter__(self):
        return iter(torch.randn(4, 32))


class Agent(BoringModel):
    def __init__(self):
        super().__init__()
        self.replay = deque()
        self.tokenizer = str.split
        self.names = ("a", "b")

    def rollout(self):
        yield self.layer.weight


@pytest.fixture
def agent():
    return Agent()


def test_a_dataset_that_runs_the_model_shares_it(agent):
    def through_a_closure():
        return agent.layer

    assert shared_with(agent, Holds(encoder=agent.layer)) == "the model"
    assert shared_with(agent, Streams(generate=agent.rollout)) == "the model"
    assert shared_with(agent, Streams(generate=through_a_closure)) == "the model"
    assert shared_with(agent, Subset(Holds(encoder=agent), [0])) == "the model"


def test_a_replay_buffer_is_named(agent):
    assert shared_with(agent, Streams(buffer=agent.replay)) == "replay"


def test_what_training_does_not_change_is_not_shared(agent):
    assert shared_with(agent, Streams(tokenize=agent.tokenizer, names=agent.names)) is None
    assert shared_with(agent, Holds(rows=agent.replay)) is None
    assert shared_with(agent, Streams(encoder=torch.nn.Linear(1, 1))) is None
    assert shared_with(agent, [torch.zeros(1)]) is None


def test_datasets_inside_of_each_other_are_looked_into_only_so_deep(agent):
    circle = Holds()
    circle.inner = circle
    assert shared_with(agent, circle) is None


def test_it_is_a_fact_of_the_run(tmp_path, agent):
    facts = []
    agent.on_train_start = lambda: facts.append(
        run_start(agent.trainer, session=0, started_unix_ns=0).loader.shares
    )
    trainer = Trainer(default_root_dir=tmp_path, max_steps=1, logger=False)
    trainer.fit(agent, DataLoader(Streams(buffer=agent.replay)))
    assert facts == ["replay"]
