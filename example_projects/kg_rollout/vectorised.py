"""Rollouts in this process: all walks step together, with one copy there and back per hop."""

from collections.abc import Iterator

import numpy as np
import torch
from graph import HOPS, Graph
from policy import Experience, Policy
from torch.utils.data import IterableDataset


class VectorisedRollouts(IterableDataset[Experience]):
    """Batches of finished walks, all of them stepped as arrays."""

    def __init__(self, policy: Policy, *, batches: int, walks: int) -> None:
        self.policy, self.batches, self.walks = policy, batches, walks

    def __iter__(self) -> Iterator[Experience]:
        graph, random = Graph.random(), np.random.default_rng(0)
        for _ in range(self.batches):
            yield self.collect(graph, random)

    def collect(self, graph: Graph, random: np.random.Generator) -> Experience:
        entity, answer = graph.queries(random, self.walks)
        walking = np.arange(self.walks)
        found = np.zeros(self.walks, dtype=np.float32)
        rows = []
        for hop in range(HOPS):
            if not len(walking):
                break
            at = entity[walking]
            relation = self.ask(at, answer[walking], hop)
            rows.append((walking, at, answer[walking], np.full(len(walking), hop), relation))
            entity[walking] = graph.following[at, relation]
            reached = entity[walking] == answer[walking]
            found[walking[reached]] = 1
            walking = walking[~reached]
        walk, at, wanted, hops, relation = (
            np.concatenate(column) for column in zip(*rows, strict=True)
        )
        packed = torch.from_numpy(np.stack([at, wanted, hops, relation]))
        return Experience(*packed, returned=torch.from_numpy(found[walk]))

    def ask(self, entity: np.ndarray, answer: np.ndarray, hop: int) -> np.ndarray:
        """Ask the policy for all actions of a hop: one packed copy there, one back."""
        packed = np.stack([entity, answer, np.full(len(entity), hop)])
        rows = torch.from_numpy(packed).to(self.policy.device)
        return self.policy.choose(*rows).cpu().numpy()
