"""Train one program under GpuProfCallback: train.py one/programs/chunked_reads.py --root DIR"""

import argparse
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "unseen"))

import lightning as L  # noqa: E402
import torch  # noqa: E402
from case import Run  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--fixed", action="store_true", help="run it with its cause mended")
    parser.add_argument("--root", type=Path, required=True)
    args = parser.parse_args()
    sys.path.insert(0, str(args.program.resolve().parent))
    program = importlib.import_module(args.program.stem)
    torch.set_num_threads(1)
    L.seed_everything(1, verbose=False)
    from lightning_gpuprof import GpuProfCallback

    program.main(Run(program.STEPS, args.fixed, args.root, [GpuProfCallback()]))


if __name__ == "__main__":
    main()
