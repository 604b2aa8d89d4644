"""What would a customer buy? Each purchase comes with four articles that were not bought.

report: recommenders-team/recommenders issue 1379, "the negtive sample is not very well in NCF" ("when
    I only sample 100 negtive items, the process is also very slow": item_pool - x for each user),
    and guoyang9/NCF issue 6 (np.random.choice(user_negative[user], replace=False))
cause: for each sample the set of all articles less those of the customer is formed, made a list,
    and put into a random order, to take four of it
right: the wait for data (the data set's __getitem__, a marked line: the set difference, or the
    choice from its list) holds the training back; the change is to draw articles at random and draw
    again what the customer has bought, or to form each customer's rest once
The mended form draws from the same articles, but not the same ones.
"""

import numpy as np
import torch
from case import Items, Module, Run, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS, CUSTOMERS, ARTICLES, PURCHASES, NEGATIVES = 200, 2000, 6000, 30_000, 4


class Purchases(Items):
    def __init__(self, purchases, fixed):
        super().__init__(purchases)
        self.fixed, self.pool = fixed, set(range(ARTICLES))
        self.bought = [set() for _ in range(CUSTOMERS)]
        for customer, article in purchases:
            self.bought[customer].add(article)

    def others(self, customer):
        if not self.fixed:
            rest = list(self.pool - self.bought[customer])  # cause
            return np.random.choice(rest, NEGATIVES, replace=False)  # cause
        found: list[int] = []
        while len(found) < NEGATIVES:
            article = int(np.random.randint(ARTICLES))
            if article not in self.bought[customer] and article not in found:
                found.append(article)
        return np.array(found)

    def __getitem__(self, index):
        customer, article = self.items[index]
        return customer, np.concatenate([[article], self.others(customer)])


class Taste(Module):
    def __init__(self):
        super().__init__()
        self.customers = nn.Embedding(CUSTOMERS, 48)
        self.articles = nn.Embedding(ARTICLES, 48)
        self.net = mlp(96, 192, 96, 1)

    def loss(self, batch):
        customers, articles = batch
        who = self.customers(customers)[:, None].expand(-1, 1 + NEGATIVES, -1)
        scores = self.net(torch.cat([who, self.articles(articles)], 2))[..., 0]
        return nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))


def main(run: Run) -> None:
    np.random.seed(8)
    pairs = zip(
        np.random.randint(CUSTOMERS, size=PURCHASES).tolist(),
        np.random.randint(ARTICLES, size=PURCHASES).tolist(),
        strict=True,
    )
    run.fit(Taste(), DataLoader(Purchases(list(pairs), run.fixed), batch_size=64, shuffle=True))
