"""A knowledge graph and walks on it: start at an entity, follow relations, reach the answer."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ENTITIES, RELATIONS, HOPS = 64, 8, 5
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """`following[entity, relation]` is the entity that a relation leads to."""

    following: Ints

    @classmethod
    def random(cls, seed: int = 0) -> "Graph":
        """Relations are steps of fixed lengths on a ring of entities: regular, so learnable."""
        strides = np.random.default_rng(seed).choice(ENTITIES, size=RELATIONS, replace=False)
        strides[0] = 0  # one relation stays where it is
        entities = np.arange(ENTITIES)[:, None]
        return cls((entities + strides) % ENTITIES)

    def queries(self, random: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """Return starts and answers that two relations lead to, each (count,)."""
        starts = random.integers(ENTITIES, size=count)
        first, second = random.integers(RELATIONS, size=(2, count))
        return starts, self.following[self.following[starts, first], second]


@dataclass
class Walk:
    """One walk: the state of an environment of this task."""

    entity: int
    answer: int
    hop: int = 0

    def step(self, graph: Graph, relation: int) -> tuple[float, bool]:
        """Follow a relation; return the reward and whether the walk is over."""
        self.entity = int(graph.following[self.entity, relation])
        self.hop += 1
        found = self.entity == self.answer
        return float(found), found or self.hop == HOPS
