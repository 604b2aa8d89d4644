"""What only a device can tell: predictions against the real allocator, and real snapshots."""

import pytest
import torch
from gpu_runs import ON_GPU
from torch import nn
from torch.nn import functional

from lightning_gpuprof.recorders.device.nvml import nvml_stats
from lightning_gpuprof.trials.predict import cublas_workspace_bytes, predict

pytestmark = ON_GPU


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 16)
        )

    def forward(self, x):
        return self.net(x).square().mean()


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8192, 512)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(512, 8192, bias=False)

    def forward(self, tokens):
        logits = self.head(self.layers(self.embed(tokens)))
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = []
        for wide in (64, 128, 256):
            blocks += [nn.LazyConv2d(wide, 3, padding=1), nn.LazyBatchNorm2d(), nn.ReLU()]
            blocks += [nn.MaxPool2d(2)]
        self.net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(10))
        self.net(torch.zeros(2, 3, 64, 64))

    def forward(self, x):
        return self.net(x).square().mean()


MODELS = {
    "mlp": (Mlp, lambda size: torch.randn(size, 1024), 16384),
    "transformer": (Transformer, lambda size: torch.randint(0, 8192, (size, 256)), 32),
    "convolutions": (ConvNet, lambda size: torch.randn(size, 3, 64, 64), 256),
}


def workspace_bytes():
    major, minor = torch.cuda.get_device_capability()
    return cublas_workspace_bytes(None if torch.version.hip else major + minor / 10)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_predicted_peak_is_within_ten_percent_of_the_measured(name, precision):
    make, batch, size = MODELS[name]
    (point,) = predict(
        lambda: (make(), batch),
        [size],
        precision=precision,
        workspace_bytes=workspace_bytes(),
    )
    # A prediction counts cuBLAS's workspaces; what earlier tests made of them would stay.
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    # Channels last, or cuDNN's kernels for it convert each input in a workspace of their own,
    # which a plan does not count.
    model = make().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        data = batch(size).cuda()
        if data.dim() == 4:
            data = data.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16-mixed"):
            loss = model(data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss, data
    measured = torch.cuda.max_memory_allocated() - before
    assert point.peak_allocated_bytes == pytest.approx(measured, rel=0.10)


@pytest.mark.skipif(bool(torch.version.hip), reason="NVML is NVIDIA's")
def test_nvml_knows_the_device():
    pytest.importorskip("pynvml")
    stats = nvml_stats(torch.device("cuda", 0))
    assert stats is not None
    reading = stats.read()
    stats.close()
    assert reading.power_mw
    if reading.total_bytes is None:
        pytest.skip("the device is partitioned (MIG): NVML tells of the whole card alone")
    assert reading.total_bytes >= torch.cuda.get_device_properties(0).total_memory * 0.9
