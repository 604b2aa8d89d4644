"""Predicts with each version under the callback: two runs with traces, to compare.

lightning-gpuprof compare runs/before runs/after
"""

from argparse import ArgumentParser

import lightning as L
from attention import FusedAttention, case
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback


class Predicts(L.LightningModule):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def predict_step(self, tokens: Tensor, batch_idx: int) -> Tensor:
        return self.module(tokens)


def main() -> None:
    parser = ArgumentParser(description="Predict with attention by head, and fused.")
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    runs = parser.parse_args().runs
    module, tokens = case()
    for name, version in {"before": module, "after": FusedAttention(module)}.items():
        trainer = L.Trainer(
            callbacks=[GpuProfCallback()],
            logger=TensorBoardLogger(runs, name=name, version=""),
            devices=1,
            enable_progress_bar=False,
        )
        loader = DataLoader([tokens.cpu()] * 60, batch_size=None)
        trainer.predict(Predicts(version), loader, return_predictions=False)


if __name__ == "__main__":
    main()
