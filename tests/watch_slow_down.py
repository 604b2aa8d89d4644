"""Watches a training in a browser while it becomes slow, and takes the pictures of the recipe.

`python tests/watch_slow_down.py LOGDIR FOLDER` trains `slowing_training.py` in LOGDIR (a copy of it
beside LOGDIR), opens the
Steps view of the tab while it runs, and waits until the tab marks the slow-down by itself. Then it
asks the running training for a capture, as a user would, and waits for its mark too.

The tab shows the path of LOGDIR: choose one that tells nobody anything.
"""

import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from browser.conftest import serve_tensorboard
from browser_driver import Browser

WIDTH, TALLEST = 1360, 1500
PROGRAM = Path(__file__).parent / "slowing_training.py"
LONGEST_S = 400


def main() -> None:
    """Train, watch and take the pictures; print what was shown when."""
    logdir, folder = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    Path(logdir).mkdir(parents=True, exist_ok=True)
    # Lines of the program are shown with its path.
    beside = Path(logdir).parent
    shutil.copy(PROGRAM, beside / "train.py")
    training = subprocess.Popen([sys.executable, "train.py", logdir], cwd=beside)
    try:
        with serve_tensorboard("--logdir", logdir) as url, closing(Browser()) as browser:
            browser.resize(WIDTH, 900)
            _when_there(logdir)
            browser.open(f"{url}/data/plugin_entry.html?name=gpuprof#p.gpuprof.view=steps")
            _say(_wait(browser, training, "in callbacks"))
            subprocess.run(
                [sys.executable, "-m", "lightning_gpuprof.cli", "capture", logdir, "--lines", "5s"],
                check=True,
            )
            _say(_wait(browser, training, "because of a request"))
            training.wait()
            time.sleep(10)  # the page asks every four seconds
            _take(browser, folder / "slow-down.png")
    finally:
        training.terminate()


def _say(marked: str) -> None:
    sys.stdout.write(f"marked while it trains: {marked}\n")


def _when_there(logdir: str) -> None:
    while not list(Path(logdir).rglob("rank0.jsonl")):
        time.sleep(0.5)


def _wait(browser: Browser, training: subprocess.Popen, text: str) -> str:
    """Wait until the legend of the steps says a text while the training still runs."""
    script = (
        "return [...document.querySelectorAll('ul.legend li')].map(e => e.innerText)"
        ".find(t => t.includes(arguments[0])) ?? null"
    )
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        if training.poll() is not None:
            sys.exit(f"the training ended before the tab said {text!r}")
        if (said := browser.run(script, text)) is not None:
            return said
        time.sleep(1)
    sys.exit(f"after {LONGEST_S} s the tab has not said {text!r}")


def _take(browser: Browser, path: Path) -> None:
    whole = browser.run("return document.documentElement.scrollHeight")
    frame = 900 - browser.run("return window.innerHeight")
    browser.resize(WIDTH, min(TALLEST, whole) + frame)
    time.sleep(2)
    browser.screenshot(path)


if __name__ == "__main__":
    main()
