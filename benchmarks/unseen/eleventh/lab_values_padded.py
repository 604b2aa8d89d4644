"""Will the patient be back within 30 days? A transformer over stays of unlike numbers of events.

cause: the collate function fills the padded tensors event by event, in a Python loop
right: waiting for data; names collate (the loop that writes single elements) or a marked line; the
    change pads whole rows at once (pad_sequence, a slice a row, NumPy) or moves it to workers
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

STEPS = 400
STAYS, CODES, WIDTH = 1200, 800, 96


class Stays(Dataset):
    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        lengths = rng.integers(16, 56, size=STAYS)
        self.codes = [rng.integers(1, CODES, size=n) for n in lengths]
        self.values = [rng.normal(size=n).astype(np.float32) for n in lengths]
        self.back = rng.integers(2, size=STAYS)

    def __len__(self):
        return STAYS

    def __getitem__(self, index):
        return self.codes[index], self.values[index], self.back[index]


def collate(stays):
    longest = max(len(codes) for codes, _, _ in stays)
    codes = torch.zeros(len(stays), longest, dtype=torch.long)
    values = torch.zeros(len(stays), longest)
    for row, (kinds, results, _) in enumerate(stays):
        for at, (kind, result) in enumerate(zip(kinds, results, strict=True)):
            codes[row, at] = int(kind)  # cause
            values[row, at] = float(result)  # cause
    return codes, values, torch.tensor([float(back) for _, _, back in stays])


def collate_rows(stays):
    codes = pad_sequence([torch.from_numpy(kinds) for kinds, _, _ in stays], batch_first=True)
    values = pad_sequence([torch.from_numpy(v) for _, v, _ in stays], batch_first=True)
    return codes, values, torch.tensor([float(back) for _, _, back in stays])


class Readmission(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.kind = nn.Embedding(CODES, WIDTH, padding_idx=0)
        self.value = nn.Linear(1, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 3 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, codes, values):
        absent = codes == 0
        seen = self.kind(codes) + self.value(values[..., None])
        seen = self.encoder(seen, src_key_padding_mask=absent)
        kept = (~absent)[..., None].float()
        return self.head((seen * kept).sum(1) / kept.sum(1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        codes, values, back = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(codes, values), back)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    padded = collate_rows if run.fixed else collate
    data = DataLoader(Stays(), batch_size=12, shuffle=True, drop_last=True, collate_fn=padded)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Readmission(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
