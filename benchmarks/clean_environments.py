"""Installs this package into clean environments and measures what it adds, and the first report.

    python benchmarks/clean_environments.py [pytorch-lightning] [tensorboard-2.20] [no-tensorboard]

Each environment is a new venv in a temporary folder with torch and what else its users have, into
which a wheel of this checkout is installed as docs/index.md says. Its columns:

- what the installation adds beside torch, Lightning and TensorBoard, in MB (10^6 bytes) on the
  disk, byte code included, and by package;
- seconds from the end of the installation to the first report of a training program.

It exits with 1 where a goal is missed or a package came along that should not have.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST_ADDED_MB, MOST_SECONDS = 10.0, 60.0
MOST_WHEEL_MB = 3.0
LIMIT_S = 900
BESIDE = ("torch", "lightning", "pytorch-lightning", "tensorboard", "setuptools")

PROGRAM = """
import torch
from torch.utils.data import DataLoader

import {package} as pl
from lightning_gpuprof import GpuProfCallback


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 1))

    def training_step(self, batch, batch_idx):
        loss = self.layers(batch).square().mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


trainer = pl.Trainer(max_epochs=3, accelerator="cpu", callbacks=[GpuProfCallback()])
trainer.fit(Model(), DataLoader(torch.randn(4000, 64), batch_size=32))
"""


@dataclass(frozen=True)
class Environment:
    """What the users of an environment have installed, and how they install this package."""

    package: str
    beside: tuple[str, ...]
    slim: bool
    absent: tuple[str, ...]


ENVIRONMENTS = {
    "pytorch-lightning": Environment(
        "pytorch_lightning", ("pytorch-lightning", "tensorboard"), True, ("lightning", "plotly")
    ),
    "tensorboard-2.20": Environment(
        "lightning", ("lightning", "tensorboard==2.20.0", "setuptools<82"), False, ("plotly",)
    ),
    "no-tensorboard": Environment("lightning", ("lightning",), True, ("tensorboard", "plotly")),
}


@dataclass
class Measured:
    """What was measured in an environment."""

    environment: str
    beside: dict[str, str]
    added_mb: float
    by_package: dict[str, float]
    install_s: float
    first_report_s: float
    problems: list[str] = field(default_factory=list)


def slim_requirements() -> list[str]:
    """Return the packages of the slim installation that docs/index.md tells."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    command = r"^pip install --no-deps lightning-gpuprof && pip install (.+)$"
    (line,) = re.findall(command, page, re.MULTILINE)
    return shlex.split(line)


def build_wheel(folder: Path) -> Path:
    """Build a wheel of this checkout."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder))
    _run((*pip, str(ROOT)), folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def measure(name: str, wheel: Path, folder: Path) -> Measured:
    """Make the environment, install the wheel, and train until the report."""
    environment = ENVIRONMENTS[name]
    venv.create(folder / "venv", with_pip=True)
    bin_folder = folder / "venv" / "bin"
    pip = (
        str(bin_folder / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "install",
    )
    constraints = ROOT / "constraints.txt"
    torch = _pins(constraints)["torch"]
    _run((*pip, f"torch=={torch}", *environment.beside), folder)
    before = _distributions(bin_folder, folder)

    began = time.perf_counter()
    if environment.slim:
        _run((*pip, "--no-deps", str(wheel)), folder)
        _run((*pip, *slim_requirements()), folder)
    else:
        _run((*pip, str(wheel)), folder)
    ended = time.perf_counter()
    (folder / "train.py").write_text(PROGRAM.format(package=environment.package))
    output = _run((str(bin_folder / "python"), "train.py"), folder)
    reported = time.perf_counter()

    after = _distributions(bin_folder, folder)
    added = {
        package: facts["bytes"] / 1e6 for package, facts in after.items() if package not in before
    }
    problems = [f"{package} was installed" for package in environment.absent if package in after]
    problems += [
        f"{package} went from {facts['version']} to {after[package]['version']}"
        for package, facts in before.items()
        if after[package]["version"] != facts["version"]
    ]
    problems += _problems_of(output, bin_folder, folder, with_tab="tensorboard" in after)
    measured = Measured(
        environment=name,
        beside={package: before[package]["version"] for package in BESIDE if package in before},
        added_mb=round(sum(added.values()), 2),
        by_package={package: round(mb, 2) for package, mb in sorted(added.items())},
        install_s=round(ended - began, 1),
        first_report_s=round(reported - ended, 1),
        problems=problems,
    )
    if measured.added_mb > MOST_ADDED_MB:
        measured.problems.append(f"it adds more than {MOST_ADDED_MB:.0f} MB")
    if measured.first_report_s > MOST_SECONDS:
        measured.problems.append(f"the first report takes more than {MOST_SECONDS:.0f} s")
    return measured


def _problems_of(output: str, bin_folder: Path, folder: Path, *, with_tab: bool) -> list[str]:
    """Return what does not work: the report in the console, the HTML file, and the tab."""
    problems = []
    if "WHERE A STEP GOES" not in output or "failed and is off" in output:
        problems.append(f"no whole report: {output[-2000:]}")
    command = str(bin_folder / "lightning-gpuprof")
    _run((command, "report", "--html", "report.html"), folder)
    if "gp-plotly" not in (folder / "report.html").read_text(encoding="utf-8"):
        problems.append("the HTML report has no charts")
    board = json.loads(_run((command, "doctor", "--json"), folder))["tensorboard"]
    if board["plugin_loads"] != with_tab:
        problems.append(f"the PROFILE tab: {board}")
    return problems


def _distributions(bin_folder: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Return version and size of each installed distribution, byte code included."""
    program = """
import json, os
from importlib.metadata import distributions
found = {}
for distribution in distributions():
    files = {str(distribution.locate_file(file)) for file in distribution.files or ()}
    size = sum(os.path.getsize(path) for path in files if os.path.isfile(path))
    name = distribution.metadata["Name"].lower().replace("_", "-")
    found[name] = {"version": distribution.version, "bytes": size}
print(json.dumps(found))
"""
    found: dict[str, dict[str, Any]] = json.loads(
        _run((str(bin_folder / "python"), "-c", program), folder)
    )
    return found


def _pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def _run(command: tuple[str, ...], folder: Path) -> str:
    """Return what a command prints; its errors are an error here."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return (
        done.stdout if command[1:2] == ("-c",) or "--json" in command else done.stdout + done.stderr
    )


def table(measured: list[Measured], wheel_mb: float) -> str:
    """Return what was measured as a table in Markdown."""
    rows = [
        f"| {line.environment} | {line.added_mb:.1f} | "
        + ", ".join(f"{package} {mb:.1f}" for package, mb in line.by_package.items())
        + f" | {line.install_s:.0f} | {line.first_report_s:.0f} |"
        for line in measured
    ]
    return "\n".join(
        [
            f"The wheel has {wheel_mb:.2f} MB (goal {MOST_WHEEL_MB:.0f}).\n",
            f"| environment | MB added (goal {MOST_ADDED_MB:.0f}) | by package | s to install | "
            f"s to the first report (goal {MOST_SECONDS:.0f}) |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "environments", nargs="*", help=f"of {', '.join(ENVIRONMENTS)}; all by default"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    args = parser.parse_args()
    names = args.environments or list(ENVIRONMENTS)
    if unknown := set(names) - set(ENVIRONMENTS):
        parser.error(f"no such environment: {', '.join(sorted(unknown))}")
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder))
        wheel_mb = wheel.stat().st_size / 1e6
        for name in names:
            with tempfile.TemporaryDirectory() as own:
                measured.append(measure(name, wheel, Path(own)))
    print(table(measured, wheel_mb))
    problems = [f"{line.environment}: {text}" for line in measured for text in line.problems]
    if wheel_mb > MOST_WHEEL_MB:
        problems.append(f"the wheel has more than {MOST_WHEEL_MB:.0f} MB")
    print("\n".join(problems))
    if args.json:
        document = {"wheel_mb": round(wheel_mb, 3), "environments": [asdict(m) for m in measured]}
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
