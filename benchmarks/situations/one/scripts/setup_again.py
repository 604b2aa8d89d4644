"""A text classifier with a data module: fitted, then validated and tested.

source: Lightning-Universe/lightning-transformers #299 "TransformerDataModule.setup() run more than once
    unnecessarily" (also Lightning-AI/pytorch-lightning #9865, #16005)
cause: the Trainer calls setup() for fit, for validate and for test, and the user once before to learn the
    number of words; each call tokenises all texts anew, for the split it needs and the others
right: says that the data module's setup() (its tokenising) takes most of the run, before the first step and
    again for each stage, with the advice to do it once (a guard, prepare_data and a cache, or by stage)
"""
import os, re, time
import torch, lightning.pytorch as pl
from torch.utils.data import DataLoader, TensorDataset

FIX, PROF, OUT = os.environ.get("FIX") == "1", os.environ.get("PROF") == "1", os.environ.get("OUT", "out/setup_again")

class Texts(pl.LightningDataModule):
    def __init__(self, lines):
        super().__init__()
        self.lines, self.splits = lines, None
    def setup(self, stage=None):
        if FIX and self.splits:
            return
        pattern, known = re.compile(r"[a-z]+|[0-9]|[^\w\s]"), {"": 0}
        rows = []
        for line in self.lines:
            words = [known.setdefault(word, len(known)) for word in pattern.findall(line.lower())]  # cause
            rows.append((words + [0] * 24)[:24])
        rows = torch.tensor(rows)
        self.words = len(known)
        self.splits = rows[:-2000], rows[-2000:-1000], rows[-1000:]
    def loader(self, rows, **options):
        return DataLoader(TensorDataset(rows), 128, **options)
    def train_dataloader(self):
        return self.loader(self.splits[0][:12_000], shuffle=True)
    def val_dataloader(self):
        return self.loader(self.splits[1])
    def test_dataloader(self):
        return self.loader(self.splits[2])

class Net(pl.LightningModule):
    def __init__(self, words):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(words, 64)
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 4))
    def loss(self, batch):
        return torch.nn.functional.cross_entropy(self.net(self.table(batch[0])), batch[0][:, 0] % 4)
    def training_step(self, batch, i):
        return self.loss(batch)
    def validation_step(self, batch, i):
        self.log("val_loss", self.loss(batch))
    def test_step(self, batch, i):
        self.log("test_loss", self.loss(batch))
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)

if __name__ == "__main__":
    torch.set_num_threads(1); pl.seed_everything(3, verbose=False)
    numbers = torch.randint(3000, (110_000, 16)).tolist()
    texts = Texts([" ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}," for n in row) for row in numbers])
    callbacks = []
    if PROF:
        from lightning_gpuprof import GpuProfCallback
        callbacks = [GpuProfCallback()]
    times = []
    class Clock(pl.Callback):
        def on_train_batch_end(self, *_):
            times.append(time.perf_counter())
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, default_root_dir=OUT, callbacks=callbacks if PROF else [Clock()])
    t = time.perf_counter()
    texts.setup(); model = Net(texts.words)
    trainer.fit(model, texts); trainer.validate(model, texts, verbose=False); trainer.test(model, texts, verbose=False)
    steps = sorted(b - a for a, b in zip(times[20:], times[21:]))
    print(f"WALL {time.perf_counter() - t:.3f} STEPS {trainer.global_step} MEDIAN_MS {1e3 * steps[len(steps) // 2] if steps else 0:.3f} MEAN_MS {1e3 * sum(steps) / max(1, len(steps)):.3f}")
