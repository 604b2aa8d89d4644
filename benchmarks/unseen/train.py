"""Train one program: python benchmarks/unseen/train.py csv_rows --profile"""

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "programs"))

import lightning as L
import torch
from case import Run, StepClock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--fixed", action="store_true", help="run it with its cause mended")
    parser.add_argument("--profile", action="store_true", help="add GpuProfCallback")
    parser.add_argument("--root", type=Path, default=Path("runs"))
    args = parser.parse_args()
    program = importlib.import_module(args.program)
    torch.set_num_threads(1)
    L.seed_everything(1, verbose=False)
    args.root.mkdir(parents=True, exist_ok=True)
    clock = StepClock()
    callbacks: list[L.Callback] = [clock]
    if args.profile:
        from lightning_gpuprof import GpuProfCallback

        callbacks = [GpuProfCallback()]
    program.main(Run(program.STEPS, args.fixed, args.root, callbacks))
    if clock.mean_ns:
        print(json.dumps({"step_ms": clock.mean_ns / 1e6, "loss": clock.loss}))


if __name__ == "__main__":
    main()
