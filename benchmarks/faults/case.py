"""Runs one case: a cause with a knob, faulty or fixed, or a control; with a profiler or without.

Called in a child process by run.py; as a script it is the training script that other profilers
are pointed at:

    python benchmarks/faults/case.py slow_getitem --knob 4000 --folder /tmp/case
"""

from argparse import ArgumentParser
from collections.abc import Callable

from causes import CAUSES
from controls import CONTROLS
from lightning.pytorch.callbacks import Callback
from workload import Fitted, Setup, fit


def setup_of(name: str, knob: float, *, fixed: bool) -> Setup:
    if name in CONTROLS:
        return CONTROLS[name]
    cause = CAUSES[name]
    return cause.fixed(knob) if fixed else cause.faulty(knob)


def bare(name: str, knob: float, fixed: bool, folder: str) -> Fitted:
    return fit(setup_of(name, knob, fixed=fixed), folder)


def profiled(name: str, knob: float, fixed: bool, folder: str) -> Fitted:
    from lightning_gpuprof import GpuProfCallback

    return fit(setup_of(name, knob, fixed=fixed), folder, (GpuProfCallback(),))


def main(make_callbacks: Callable[[], tuple[Callback, ...]] = tuple) -> None:
    parser = ArgumentParser(description="Train one case of the fault suite.")
    parser.add_argument("name", choices=[*CAUSES, *CONTROLS])
    parser.add_argument("--knob", type=float, default=1.0)
    parser.add_argument("--fixed", action="store_true", help="run it with the fix")
    parser.add_argument("--folder", default="runs/case")
    args = parser.parse_args()
    fitted = fit(setup_of(args.name, args.knob, fixed=args.fixed), args.folder, make_callbacks())
    print(f"{fitted.step_ns / 1e6:.3f} ms per step; log dir {fitted.log_dir}")


if __name__ == "__main__":
    main()
