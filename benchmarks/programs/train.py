"""Trains one of packages/ in its environment and prints what came of it as JSON; run.py calls it.

    python train.py ROW ROOT bare|profiled

ROW is the program's row of programs.yaml as JSON, ROOT a new folder.
"""

import copy
import hashlib
import importlib
import json
import os
import pickle
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROW, ROOT, HOW = json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LIGHTNING = importlib.import_module(ROW["lightning"])  # before the callback, as a program does
COPIED_AT = 20  # in this batch of the second fit the trainer is copied, and again at its end


def digest(value: Any) -> str:
    """Return a hash of nested values, tensors by their bytes."""
    found = hashlib.sha256()

    def feed(value: Any) -> None:
        if hasattr(value, "detach"):
            found.update(f"{value.dtype} {tuple(value.shape)}".encode())
            found.update(value.detach().contiguous().numpy().tobytes())
        elif isinstance(value, dict):
            feed(list(value.items()))
        elif isinstance(value, (list, tuple)):
            for item in value:
                feed(item)
        else:
            found.update(repr(value).encode())

    feed(value)
    return found.hexdigest()[:16]


def streams() -> list[Any]:
    """Return the state of each stream of random numbers."""
    numpy, torch = importlib.import_module("numpy"), importlib.import_module("torch")
    own, numpys = repr(random.getstate()), numpy.random.get_state()
    return [own, numpys[1].tobytes(), numpys[2:], torch.get_rng_state()]


def copies(trainer: Any) -> list[str]:
    """Return whether a deep copy works, and pickle there and back."""

    def outcome(act: Callable[[], Any]) -> str:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - it may be any
            return f"{type(error).__name__}: {error}"[:100]
        return "works"

    there_and_back = outcome(lambda: pickle.loads(pickle.dumps(trainer)))
    return [outcome(lambda: copy.deepcopy(trainer)), there_and_back]


class Watch(LIGHTNING.Callback):
    """Notes each step's loss and the random streams behind it."""

    ended: Any = None  # the one that trained last, maybe a copy, and its trainer

    def __init__(self, copied: bool) -> None:
        self.copied = copied
        self.steps: list[Any] = []
        self.copies: list[str] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.steps.append([None if loss is None else float(loss), digest(streams())])
        if self.copied and len(self.steps) == COPIED_AT:
            self.copies += copies(trainer)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.steps.append([one.state_dict() for one in trainer.optimizers])
        Watch.ended = self, trainer


def one_fit(root: Path, extra: list[Any], *, copied: bool) -> dict[str, Any]:
    """Train once with a fixed seed; `results` hashes all that came of it."""
    root.mkdir(parents=True)
    program = importlib.import_module(f"packages.{ROW['name']}")
    LIGHTNING.seed_everything(1, workers=True, verbose=False)
    options = {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False}
    callbacks = [Watch(copied), *extra]
    program.fit({**options, "default_root_dir": str(root), "callbacks": callbacks})
    watch, trainer = Watch.ended
    if copied:
        watch.copies += copies(trainer)
    results = digest([watch.steps, streams(), trainer.lightning_module.state_dict()])
    return {"steps": len(watch.steps) - 1, "results": results, "copies": watch.copies}


def main() -> Any:
    ROOT.mkdir(parents=True)
    os.chdir(ROOT)
    extra: list[Any] = []
    if HOW == "profiled":
        from lightning_gpuprof import GpuProfCallback

        extra = [GpuProfCallback()]
    return [one_fit(ROOT / f"fit{n}", extra, copied=n == 1) for n in range(2)]


if __name__ == "__main__":
    print(json.dumps(main()))
