"""When will the ship have berthed? A forecast whose learning rate follows a file of stages.

cause: the schedule's function reads and parses the file of stages (yaml.safe_load, plain Python)
    for each group of parameters at every step, so that it can be edited while the run goes on
right: names the parsing of the YAML file in the schedule (Stages.read, called by LambdaLR's step);
    its change is to parse it once and again only where the file's time has changed

The author knows of no thread on this very cause; a file of settings parsed anew in a hot loop
is often met.
"""

import lightning as L
import torch
import yaml
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
CALLS, FACTS, BATCH, WIDTH = 20000, 48, 128, 512


class Stages:
    """What the learning rate is to be multiplied with, as the file says."""

    def __init__(self, path, fixed) -> None:
        self.path, self.fixed = path, fixed
        stages = [
            {"name": f"stage {n}", "from_step": 25 * n, "factor": round(0.85**n, 4)}
            for n in range(8)
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"stages": stages, "warmup": 10}), encoding="utf-8")
        self.known, self.changed = None, None

    def read(self):
        return yaml.safe_load(self.path.read_text(encoding="utf-8"))  # cause

    def now(self):
        if not self.fixed:
            return self.read()
        changed = self.path.stat().st_mtime_ns
        if changed != self.changed:
            self.known, self.changed = self.read(), changed
        return self.known

    def __call__(self, step):
        plan = self.now()
        begun = [stage["factor"] for stage in plan["stages"] if stage["from_step"] <= step]
        return begun[-1] * min(1.0, (step + 1) / plan["warmup"])


class Berths(L.LightningModule):
    def __init__(self, stages) -> None:
        super().__init__()
        self.stages = stages
        self.body = nn.Sequential(
            nn.Linear(FACTS, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
        )
        self.hours = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        facts, hours = batch
        loss = nn.functional.smooth_l1_loss(self.hours(self.body(facts)).squeeze(1), hours)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        groups = [
            {"params": self.body.parameters(), "lr": 5e-4},
            {"params": self.hours.parameters(), "lr": 2e-3, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.stages)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def main(run: Run) -> None:
    facts = torch.randn(CALLS, FACTS)
    hours = facts[:, 0] * facts[:, 1] + facts[:, 2:6].sum(dim=1).abs()
    stages = Stages(run.root / "stages.yaml", run.fixed)
    calls = TensorDataset(facts, hours)
    batches = BatchSampler(RandomSampler(calls), BATCH, drop_last=True)
    data = DataLoader(calls, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Berths(stages), data)


if __name__ == "__main__":
    main(arguments(STEPS))
