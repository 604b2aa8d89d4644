"""Which words answer the question? A frozen language model learns by adapters of low rank.

cause: the model's head gives logits of the whole vocabulary for every word of the prompt too,
    and the loss then ignores them: seven of eight rows are made for nothing
right: names the head's line in training_step (or the loss over its logits); its change is to take
    the rows of the answer first, and to give only these to the head
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
COUNT, BATCH, LENGTH, ANSWER = 1200, 4, 96, 12
WORDS, WIDTH, RANK = 3000, 128, 8
IGNORED = -100


class Questions(Dataset):
    def __init__(self) -> None:
        self.words = torch.randint(0, WORDS, (COUNT, LENGTH))
        self.words[:, -ANSWER:] = self.words[:, :ANSWER] % 50
        self.labels = self.words.roll(-1, dims=1)
        self.labels[:, : -ANSWER - 1] = IGNORED
        self.labels[:, -1] = IGNORED

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.words[index], self.labels[index]


class Adapted(nn.Module):
    """A frozen linear layer and a trained update of low rank."""

    def __init__(self, inside, outside) -> None:
        super().__init__()
        self.base = nn.Linear(inside, outside).requires_grad_(False)
        self.down = nn.Linear(inside, RANK, bias=False)
        self.up = nn.Linear(RANK, outside, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.before_feed = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.qkv = Adapted(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        ).requires_grad_(False)

    def forward(self, x):
        count, length, _ = x.shape
        qkv = self.qkv(self.before_attention(x)).view(count, length, 3, 4, WIDTH // 4)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(count, length, WIDTH))
        return x + self.feed(self.before_feed(x))


class Tuned(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.embedding = nn.Embedding(WORDS, WIDTH).requires_grad_(False)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, WORDS, bias=False).requires_grad_(False)

    def training_step(self, batch, batch_idx):
        words, labels = batch
        hidden = self.blocks(self.embedding(words))
        if self.fixed:
            counted = labels != IGNORED
            hidden, labels = hidden[counted], labels[counted]
        logits = self.head(hidden)  # cause
        loss = nn.functional.cross_entropy(  # cause
            logits.view(-1, WORDS), labels.view(-1), ignore_index=IGNORED
        )
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Questions(), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Tuned(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
