"""A deep narrow transformer that met a NaN once; gradients have been checked ever since.

cause: on_after_backward loops over all parameters: isfinite, abs().max().item(), mean().item()
accept: slow-callback host-sync
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 450


class Deep(L.LightningModule):
    def __init__(self, check: str) -> None:
        super().__init__()
        self.check = check
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 10, enable_nested_tensor=False)
        self.head = nn.Linear(48, 48)
        self.worst: dict[str, float] = {}

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.head(self.body(x)), x.roll(1, dims=1))
        self.log("train_loss", loss)
        return loss

    def on_after_backward(self):
        if self.check == "each":
            for name, parameter in self.named_parameters():  # cause
                if not torch.isfinite(parameter.grad).all():  # cause
                    raise FloatingPointError(name)
                self.worst[name] = parameter.grad.abs().max().item()  # cause
                self.worst[name + ".mean"] = parameter.grad.mean().item()  # cause
        elif self.global_step % 50 == 0:
            norms = torch._foreach_norm([parameter.grad for parameter in self.parameters()])
            if not torch.isfinite(torch.stack(norms)).all():
                raise FloatingPointError("gradients")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.randn(1024, 12, 48)), batch_size=8, shuffle=True)
    model = Deep("seldom" if run.fixed else "each")
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
