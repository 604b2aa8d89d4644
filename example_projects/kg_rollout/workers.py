"""Rollouts by worker processes: each steps one walk at a time and asks for every single action."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import numpy as np
import torch
from graph import Graph, Walk
from policy import Experience, Policy
from torch.utils.data import IterableDataset

WORKERS = 4
POLL_S = 0.0005


def worker(connection: Connection, seed: int) -> None:
    """Walk for ever: send (entity, answer, hop, reward, over), receive a relation."""
    graph, random = Graph.random(), np.random.default_rng(seed)
    reward, over = 0.0, False
    (start,), (answer,) = graph.queries(random, 1)
    walk = Walk(int(start), int(answer))
    while True:
        connection.send((walk.entity, walk.answer, walk.hop, reward, over))
        if over:
            (start,), (answer,) = graph.queries(random, 1)
            walk, reward, over = Walk(int(start), int(answer)), 0.0, False
            continue
        try:
            relation = connection.recv()
        except EOFError:
            return
        reward, over = walk.step(graph, relation)


class WorkerRollouts(IterableDataset[Experience]):
    """Batches of finished walks; policy and training live here, the walks in the workers."""

    def __init__(self, policy: Policy, *, batches: int, walks: int, workers: int = WORKERS) -> None:
        self.policy, self.batches, self.walks = policy, batches, walks
        self.workers = workers

    def __iter__(self) -> Iterator[Experience]:
        context = multiprocessing.get_context("fork")
        pairs = [context.Pipe() for _ in range(self.workers)]
        processes = [
            context.Process(target=worker, args=(theirs, seed), daemon=True)
            for seed, (_, theirs) in enumerate(pairs)
        ]
        for process in processes:
            process.start()
        try:
            for _ in range(self.batches):
                yield self.collect([ours for ours, _ in pairs])
        finally:
            for process in processes:
                process.kill()  # a forked child has Lightning's SIGTERM handler, which goes on

    def collect(self, connections: list[Connection]) -> Experience:
        """Serve whichever worker asks until enough walks are over."""
        running: list[list[tuple[int, int, int, int]]] = [[] for _ in connections]
        steps: list[tuple[int, int, int, int, float]] = []
        over_count = 0
        while over_count < self.walks:
            for number, connection in enumerate(connections):
                if not connection.poll(POLL_S):
                    continue
                entity, answer, hop, reward, over = connection.recv()
                if over:
                    steps += [(*step, reward) for step in running[number]]
                    running[number] = []
                    over_count += 1
                    continue
                relation = self.ask(entity, answer, hop)
                running[number].append((entity, answer, hop, relation))
                connection.send(relation)
        return Experience(*(torch.tensor(column) for column in zip(*steps, strict=True)))

    def ask(self, entity: int, answer: int, hop: int) -> int:
        """Ask the policy for one action: three tiny copies to the device and one back."""
        device = self.policy.device
        return int(
            self.policy.choose(
                torch.tensor([entity]).to(device),
                torch.tensor([answer]).to(device),
                torch.tensor([hop]).to(device),
            ).item()
        )
