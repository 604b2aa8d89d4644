"""Which residue is missing? A masked language model over the sequences of enzymes, clean.

The sequences differ in length and are sorted into batches of like length beforehand, so that hardly
anything is padded; one worker pads and masks them ahead of the step.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS = 260
ENZYMES, RESIDUES, LONGEST, WIDTH, BATCH = 6400, 20, 64, 96, 16
PAD, MASK = 0, RESIDUES + 1


def enzymes() -> list[Tensor]:
    lengths = torch.randint(32, LONGEST + 1, (ENZYMES,)).tolist()
    return [torch.randint(1, RESIDUES + 1, (length,)) for length in lengths]


def like_length(sequences: list[Tensor]) -> list[list[int]]:
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
    return [batches[i] for i in torch.randperm(len(batches)).tolist()]


def pad_and_mask(sequences: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    whole = pad_sequence(sequences, batch_first=True, padding_value=PAD)
    padded = whole == PAD
    hidden = (torch.rand(whole.shape) < 0.15) & ~padded
    return whole.masked_fill(hidden, MASK), whole.masked_fill(~hidden, -100), padded


class Enzymologist(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.residue = nn.Embedding(RESIDUES + 2, WIDTH, padding_idx=PAD)
        self.place = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 3 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, RESIDUES + 2)

    def training_step(self, batch, batch_idx):
        shown, wanted, padded = batch
        x = self.residue(shown) + self.place.weight[: shown.shape[1]]
        guessed = self.head(self.encoder(x, src_key_padding_mask=padded))
        loss = nn.functional.cross_entropy(guessed.flatten(0, 1), wanted.flatten())
        self.log("mlm_loss", loss, batch_size=len(shown))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=4e-4, weight_decay=0.01, fused=True)


def main(run: Run) -> None:
    sequences = enzymes()
    loader = DataLoader(
        sequences,
        batch_sampler=like_length(sequences),
        collate_fn=pad_and_mask,
        num_workers=1,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Enzymologist(), loader)


if __name__ == "__main__":
    main(arguments(STEPS))
