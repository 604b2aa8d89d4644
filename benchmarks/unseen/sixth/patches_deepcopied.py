"""Which tissue is it? Small patches cut at random out of whole scans of the knee.

seen in: TorchIO-project/torchio issue 1305, "PatchSampler slowdown after upgrading" (a deepcopy for
each patch that is pulled from a subject), and Project-MONAI/MONAI issue 3000 (the cached item
deep-copied each time)

cause: for every patch the whole subject, scan and labels, is deep-copied before it is cut
right: names the fetching of items in the loader, or the line with deepcopy; its change takes the
    copy out of the step (a shallow copy, only the patch copied, or worker processes)
"""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
SUBJECTS, SIDE, PATCH, EACH, TISSUES = 12, 88, 16, 60, 4


class Patches(Dataset):
    """Gives EACH patches of every subject in an epoch, from places drawn anew."""

    def __init__(self, subjects, shallow: bool) -> None:
        self.subjects, self.shallow = subjects, shallow

    def __len__(self) -> int:
        return EACH * len(self.subjects)

    def __getitem__(self, index):
        subject = self.subjects[index // EACH]
        subject = copy.copy(subject) if self.shallow else copy.deepcopy(subject)  # cause
        corner = torch.randint(SIDE - PATCH, (3,)).tolist()
        place = (..., *(slice(start, start + PATCH) for start in corner))
        subject["scan"] = subject["scan"][place] * (0.9 + 0.2 * torch.rand(1))
        subject["tissues"] = subject["tissues"][place]
        return subject["scan"], subject["tissues"]


class Tissues(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.Conv3d(12, 12, 3, padding=1),
            nn.ReLU(),
            nn.Conv3d(12, TISSUES, 1),
        )

    def training_step(self, batch, batch_idx):
        scans, tissues = batch
        loss = nn.functional.cross_entropy(self.net(scans), tissues.long())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    subjects = [
        {
            "name": f"knee {number}",
            "spacing": (0.5, 0.5, 0.8),
            "scan": torch.randn(1, SIDE, SIDE, SIDE),
            "tissues": torch.randint(TISSUES, (SIDE, SIDE, SIDE), dtype=torch.uint8),
        }
        for number in range(SUBJECTS)
    ]
    data = DataLoader(Patches(subjects, run.fixed), batch_size=6, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, accumulate_grad_batches=2, **run.trainer)
    trainer.fit(Tissues(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
