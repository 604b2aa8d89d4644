"""Takes the pictures in docs/tab, each view on a run that has something to show in it.

`python tests/take_pictures.py LOGDIR FOLDER [VIEW ...]` takes those views, or all of them. LOGDIR
has the runs of `RUNS`, which four commands write:

    make demo RUNS=LOGDIR
    python tests/recorded.py LOGDIR/h100            runs on a GPU (tests/data/h100)
    python tests/made_runs.py LOGDIR                several ranks, which no machine at hand has
    python tests/made_runs.py LOGDIR/qwen TRACE     TraceLens' Qwen1.5-0.5B of an H100

Views name folders: choose a LOGDIR whose path tells nobody anything.
"""

import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from browser.conftest import serve_tensorboard
from browser_driver import Browser

RUNS = {
    "overview": "char_lm-before/version_0",
    "steps": "char_lm-before/version_0",
    "timeline": "h100/reads-in-a-loop",
    "operators": "h100/fp32-products",
    "roofline": "qwen",
    "memory": "h100/leak",
    "ranks": "two_ranks",
    "compare": "char_lm-after/version_0",
}
WIDTH, TALLEST = 1360, 1400
DARK = ("overview", "timeline")
BASE = "char_lm-before/version_0"


def main() -> None:
    """Start TensorBoard and a browser, and take the pictures."""
    logdir, folder, views = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(RUNS)
    if missing := {RUNS[view] for view in views if not Path(logdir, RUNS[view]).is_dir()}:
        sys.exit(f"{logdir} has no {', '.join(sorted(missing))}: see how they are written above.")
    with serve_tensorboard("--logdir", logdir) as url, closing(Browser()) as browser:
        for view in views:
            _take(browser, f"{url}/data/plugin_entry.html?name=gpuprof", view, folder)


def _take(browser, url, view, folder) -> None:
    browser.resize(WIDTH, 900)
    browser.open(
        f"{url}#p.gpuprof.run={quote(RUNS[view], safe='')}"
        f"&p.gpuprof.view={view}&p.gpuprof.base={quote(BASE, safe='')}"
    )
    browser.wait("return document.querySelector('.card')")
    time.sleep(2.5)
    whole = browser.run("return document.documentElement.scrollHeight")
    frame = 900 - browser.run("return window.innerHeight")
    browser.resize(WIDTH, min(TALLEST, whole) + frame)
    time.sleep(1.0)
    browser.screenshot(folder / f"{view}.png")
    if view in DARK:
        browser.run("document.body.classList.add('dark-mode')")
        time.sleep(2.0)
        browser.screenshot(folder / f"{view}-dark.png")


if __name__ == "__main__":
    main()
