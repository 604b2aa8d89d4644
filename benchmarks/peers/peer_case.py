"""Trains one case of the fault suite with a peer that is a callback or a Trainer option.

Run by run.py with the Python of the peer's own virtual environment. TraceML needs no line in the
script, as its docs say: it launches benchmarks/faults/case.py itself.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))

from case import parser, setup_of
from workload import fit


def main() -> None:
    arguments = parser()
    arguments.add_argument("--peer", required=True, choices=["gpuprof", "simple", "pytorch"])
    args = arguments.parse_args()
    setup = setup_of(args.name, args.knob, fixed=args.fixed)
    callbacks: tuple[Any, ...] = ()
    if args.peer == "gpuprof":
        from gpuprof.integrations import LightningCallback

        callbacks = (LightningCallback(run_name=args.name),)
    else:
        setup = replace(setup, trainer={**setup.trainer, "profiler": args.peer})
    fitted = fit(setup, args.folder, callbacks)
    print(f"{fitted.step_ns / 1e6:.3f} ms per step")


if __name__ == "__main__":
    main()
