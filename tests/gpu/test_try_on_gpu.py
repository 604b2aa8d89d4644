"""On a GPU: precision, compilation and pinning are tried on a script in processes of their own."""

import pytest
from gpu_runs import ON_GPU

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode

pytestmark = ON_GPU

SCRIPT = """
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        layer = torch.nn.Linear(2048, 2048)
        self.net = torch.nn.Sequential(layer, torch.nn.GELU(), torch.nn.Linear(2048, 2048))

    def training_step(self, batch, batch_idx):
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    data = DataLoader(TensorDataset(torch.randn(8192, 2048)), batch_size=512)
    trainer = Trainer(
        max_epochs=-1, accelerator="gpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Net(), data)
"""


@pytest.mark.parametrize("change", ["precision", "matmul_precision", "pin_memory", "compile"])
def test_a_change_is_measured(tmp_path, monkeypatch, capfd, figure, change):
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    asked = ["try", "--change", change, "--for", "100s", "--json", "train.py"]
    assert main(asked) == 0
    document = decode(capfd.readouterr().out)
    for untried in document.rows("untried"):
        assert untried["verdict"] != "failed", untried["why"]
        pytest.skip(f"{change}: {untried['why']}")
    figure(f"try {change}: gain of the step", document.rows("trials")[0]["gain_frac"])
    effects = document.rows("trial_effects")[1]
    assert effects["memory_bytes"] > 2**20
    assert effects["losses"] != "not compared"
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
