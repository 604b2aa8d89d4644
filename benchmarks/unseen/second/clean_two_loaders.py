"""Semi-supervised sound tagging: labelled and unlabelled clips together, a slow mean teacher.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
BANDS, FRAMES, TAGS = 40, 64, 8


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(BANDS, 96, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(96, 96, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(96, TAGS),
        )

    def forward(self, clips):
        return self.net(clips)


class MeanTeacher(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = Tagger(), Tagger().requires_grad_(False)
        self.teacher.load_state_dict(self.student.state_dict())

    def training_step(self, batch, batch_idx):
        clips, tags = batch["labelled"]
        (more,) = batch["unlabelled"]
        scores = self.student(torch.cat([clips, more + 0.1 * torch.randn_like(more)]))
        with torch.no_grad():
            wanted = self.teacher(more).sigmoid()
        known = nn.functional.binary_cross_entropy_with_logits(scores[: len(clips)], tags)
        steady = nn.functional.mse_loss(scores[len(clips) :].sigmoid(), wanted)
        self.log_dict({"known": known, "steady": steady})
        return known + 2.0 * steady

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        old, new = list(self.teacher.parameters()), list(self.student.parameters())
        torch._foreach_lerp_(old, new, 0.01)

    def configure_optimizers(self):
        return torch.optim.SGD(self.student.parameters(), lr=0.02, momentum=0.9)


def main(run: Run) -> None:
    labelled = TensorDataset(torch.randn(400, BANDS, FRAMES), torch.randint(2, (400, TAGS)).float())
    unlabelled = TensorDataset(torch.randn(1600, BANDS, FRAMES))
    loaders = {
        "labelled": DataLoader(labelled, batch_size=16, shuffle=True),
        "unlabelled": DataLoader(unlabelled, batch_size=32, shuffle=True),
    }
    both = L.pytorch.utilities.CombinedLoader(loaders, "max_size_cycle")
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(MeanTeacher(), both)


if __name__ == "__main__":
    main(arguments(STEPS))
