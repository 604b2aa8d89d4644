"""Two processes train on utterances of very unlike lengths; each batch is padded to its longest.

source: pytorch/pytorch #59433 "Why the time costs on different ranks are different?", lightseekorg/TorchSpec
    #13 "feat: reduce DP rank imbalance from variable sequence lengths"
cause: batches are dealt to the processes regardless of length, so that in each step the one with the
    shorter batch waits for the other: now the one, now the other
right: says that the ranks wait for one another because their batches differ in size (lengths), by turns,
    not one slow rank; the advice is to give the ranks batches of alike length (sort, bucket, balance)
"""
import os, time
import torch, lightning.pytorch as pl
from torch.utils.data import DataLoader, Sampler

FIX, PROF, OUT = os.environ.get("FIX") == "1", os.environ.get("PROF") == "1", os.environ.get("OUT", "out/ddp_lengths")
SIZE, STEPS = 4, 150

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = torch.nn.GRU(24, 96, batch_first=True), torch.nn.Linear(96, 10)
    def training_step(self, batch, i):
        x, wanted = batch
        return torch.nn.functional.cross_entropy(self.head(self.rnn(x)[1][0]), wanted)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)

class Dealt(Sampler):
    """Batches of indices for one rank: of whatever length, or of the same place in the order of lengths."""
    def __init__(self, lengths):
        self.lengths = lengths
    def __iter__(self):
        rank = int(os.environ.get("LOCAL_RANK", 0))
        generator = torch.Generator().manual_seed(11)
        order = torch.randperm(len(self.lengths), generator=generator)
        if FIX:  # a step's eight utterances are neighbours in length; the ranks take them alternately
            by_length = torch.tensor(self.lengths).argsort()
            groups = by_length.view(-1, 2 * SIZE)[torch.randperm(len(by_length) // (2 * SIZE), generator=generator)]
            yield from (group[rank::2].tolist() for group in groups)
        else:
            yield from (group.tolist() for group in order.view(-1, 2, SIZE)[:, rank])  # cause
    def __len__(self):
        return len(self.lengths) // (2 * SIZE)

def padded(samples):
    xs, ys = zip(*samples)
    return torch.nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor(ys)

if __name__ == "__main__":
    torch.set_num_threads(1); pl.seed_everything(3, verbose=False)
    lengths = (torch.randn(STEPS * 2 * SIZE, generator=torch.Generator().manual_seed(2)) * 0.9 + 4.0).exp().clamp(8, 600).int().tolist()
    data = [(torch.randn(length, 24), length % 10) for length in lengths]
    callbacks = []
    if PROF:
        from lightning_gpuprof import GpuProfCallback
        callbacks = [GpuProfCallback()]
    times = []
    class Clock(pl.Callback):
        def on_train_batch_end(self, *_):
            times.append(time.perf_counter())
    trainer = pl.Trainer(max_epochs=1, devices=2, strategy="ddp", accelerator="cpu", use_distributed_sampler=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, logger=False, default_root_dir=OUT, callbacks=callbacks if PROF else [Clock()])
    model = Net(); t = time.perf_counter()
    trainer.fit(model, DataLoader(data, batch_sampler=Dealt(lengths), collate_fn=padded))
    if trainer.is_global_zero:
        steps = sorted(b - a for a, b in zip(times[20:], times[21:]))
        print(f"WALL {time.perf_counter() - t:.3f} STEPS {trainer.global_step} MEDIAN_MS {1e3 * steps[len(steps) // 2] if steps else 0:.3f} MEAN_MS {1e3 * sum(steps) / max(1, len(steps)):.3f}")
