"""Reviews of films, read by a small encoder; the settings were copied from a run on a GPU.

Reported in huggingface/transformers issue 34692, "CPU processing is extremely slow for models
loaded with torch_dtype = torch.float16", and constantinpape/torch-em pull request 758.

cause: precision="16-true" on a CPU without arithmetic for float16
right: says that the model computes in float16 on the CPU, slowly; the change is precision 32 (or
    bfloat16 where the CPU has it), never a still lower precision
"""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS, REVIEWS, WORDS, WIDTH = 90, 1024, 32, 96


class Reviews(Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(2000, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def loss(self, batch):
        words, likes = batch
        return nn.functional.cross_entropy(self.head(self.encoder(self.words(words)).mean(1)), likes)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-2)


def main(run: Run) -> None:
    words, likes = torch.randint(2000, (REVIEWS, WORDS)), torch.randint(2, (REVIEWS,))
    precision = "32-true" if run.fixed else "16-true"  # cause
    run.fit(Reviews(), whole_batches([words, likes], 16), precision=precision)
