"""Runs one case: a cause with a knob, faulty or fixed, or a control; with a profiler or without.

Called in a child process by run.py; as a script it is the training script that other profilers
are pointed at, with `--peer` by the Python of a peer's own virtual environment:

    python benchmarks/faults/case.py slow_getitem --knob 4000 --folder /tmp/case
"""

from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from causes import CAUSES
from controls import CONTROLS
from turns import Turns
from workload import Fitted, Setup, fit


def setup_of(name: str, knob: float, *, fixed: bool) -> Setup:
    if name in CONTROLS:
        return CONTROLS[name]
    cause = CAUSES[name]
    return cause.fixed(knob) if fixed else cause.faulty(knob)


def in_turns(setup: Setup, folder: str, turns: Turns) -> Fitted:
    return fit(setup, folder, turns=turns)


def profiled(name: str, knob: float, fixed: bool, folder: str) -> Fitted:
    from lightning_gpuprof import GpuProfCallback

    return fit(setup_of(name, knob, fixed=fixed), folder, (GpuProfCallback(),))


def main() -> None:
    parser = ArgumentParser(description="Train one case of the fault suite.")
    parser.add_argument("name", choices=[*CAUSES, *CONTROLS])
    parser.add_argument("--knob", type=float, default=1.0)
    parser.add_argument("--fixed", action="store_true", help="run it with the fix")
    parser.add_argument("--folder", default="runs/case")
    parser.add_argument("--peer", choices=["gpuprof", "simple"], help="train under a peer")
    args = parser.parse_args()
    setup, callbacks = setup_of(args.name, args.knob, fixed=args.fixed), ()
    if args.peer == "gpuprof":
        from gpuprof.integrations import LightningCallback

        callbacks: tuple[Any, ...] = (LightningCallback(run_name=args.name),)
    elif args.peer is not None:
        setup = replace(setup, trainer={**setup.trainer, "profiler": args.peer})
    fitted = fit(setup, args.folder, callbacks)
    print(f"{fitted.step_ns / 1e6:.3f} ms per step; log dir {fitted.log_dir}")


if __name__ == "__main__":
    main()
