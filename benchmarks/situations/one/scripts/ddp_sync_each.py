"""Two processes; two dozen losses are logged in each step, averaged over the processes.

source: allenai/OLMo PR #279 "Use `dist.reduce()` instead of `dist.all_gather()` for loss" ("we spend a lot of
    time reducing the loss across ranks")
cause: self.log(..., sync_dist=True) sends each of 24 values on its own through a collective, in every step
right: says that sync_dist=True in training_step's logging (collectives of single numbers) costs the time,
    with the advice to sync at the epoch's end only, rarely, or all values in one
"""
import os, time
import torch, lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset

FIX, PROF, OUT = os.environ.get("FIX") == "1", os.environ.get("PROF") == "1", os.environ.get("OUT", "out/ddp_sync_each")

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(96, 384), torch.nn.ReLU(), torch.nn.Linear(384, 384), torch.nn.ReLU())
        self.heads = torch.nn.ModuleList(torch.nn.Linear(384, 1) for _ in range(24))
    def training_step(self, batch, i):
        h = self.body(batch[0])
        total = 0
        for k, head in enumerate(self.heads):
            loss = (head(h).squeeze(1) - batch[0][:, k]).square().mean()
            self.log(f"task{k}", loss, sync_dist=not FIX)  # cause
            total = total + loss
        return total
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-2)

if __name__ == "__main__":
    torch.set_num_threads(1); pl.seed_everything(3, verbose=False)
    callbacks = []
    if PROF:
        from lightning_gpuprof import GpuProfCallback
        callbacks = [GpuProfCallback()]
    times = []
    class Clock(pl.Callback):
        def on_train_batch_end(self, *_):
            times.append(time.perf_counter())
    trainer = pl.Trainer(max_epochs=1, devices=2, strategy="ddp", accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=OUT, callbacks=callbacks if PROF else [Clock()])
    model = Net(); t = time.perf_counter()
    trainer.fit(model, DataLoader(TensorDataset(torch.randn(150 * 2 * 64, 96)), 64, shuffle=True))
    if trainer.is_global_zero:
        steps = sorted(b - a for a, b in zip(times[20:], times[21:]))
        print(f"WALL {time.perf_counter() - t:.3f} STEPS {trainer.global_step} MEDIAN_MS {1e3 * steps[len(steps) // 2] if steps else 0:.3f} MEAN_MS {1e3 * sum(steps) / max(1, len(steps)):.3f}")
