"""A deep narrow transformer that met a NaN once; gradients have been checked ever since.

cause: on_after_backward loops over all parameters: isfinite, abs().max().item(), mean().item()
accept: slow-callback host-sync
"""

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS = 450


class Deep(Module):
    fused = True

    def __init__(self, each):
        super().__init__()
        self.each, self.worst = each, {}
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 10, enable_nested_tensor=False)
        self.head = nn.Linear(48, 48)

    def loss(self, batch):
        (x,) = batch
        return nn.functional.mse_loss(self.head(self.body(x)), x.roll(1, dims=1))

    def on_after_backward(self):
        if self.each:
            for name, parameter in self.named_parameters():  # cause
                if not torch.isfinite(parameter.grad).all():  # cause
                    raise FloatingPointError(name)
                self.worst[name] = parameter.grad.abs().max().item()  # cause
                self.worst[name + ".mean"] = parameter.grad.mean().item()  # cause
        elif self.global_step % 50 == 0:
            norms = torch._foreach_norm([parameter.grad for parameter in self.parameters()])
            if not torch.isfinite(torch.stack(norms)).all():
                raise FloatingPointError("gradients")


def main(run: Run) -> None:
    run.fit(Deep(each=not run.fixed), shuffled(8, torch.randn(1024, 12, 48)))
