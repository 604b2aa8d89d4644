"""Takes the pictures in docs/tab, each view on a run that has something to show in it.

`python tests/take_pictures.py LOGDIR FOLDER [PICTURE ...]` takes those pictures, or all of them.
LOGDIR has the runs of `PICTURES`, which these commands write:

    make demo RUNS=LOGDIR
    python tests/recorded.py LOGDIR/h100            runs on a GPU (tests/data/h100)
    python tests/made_runs.py LOGDIR                several ranks, which no machine at hand has
    python tests/made_runs.py LOGDIR/qwen TRACE     TraceLens' Qwen1.5-0.5B of an H100
    python benchmarks/planted_stragglers.py --folder FOLDER --only fully_shard-forward-always
    mv FOLDER/* LOGDIR/late_rank                    four gloo ranks
    cp -r tests/data/job/gloo-4 LOGDIR/gloo_traces  traces of four gloo ranks

Views name folders: choose a LOGDIR whose path tells nobody anything.
"""

import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from browser.conftest import serve_tensorboard
from browser_driver import Browser

PICTURES = {
    "overview": ("overview", "char_lm-before/version_0"),
    "runs": ("runs", "char_lm-before/version_0"),  # in a LOGDIR of few runs
    "steps": ("steps", "char_lm-before/version_0"),
    "timeline": ("timeline", "h100/reads-in-a-loop"),
    "operators": ("operators", "h100/fp32-products"),
    "roofline": ("roofline", "qwen"),
    "memory": ("memory", "h100/leak"),
    "ranks": ("ranks", "two_ranks"),
    "late-rank": ("ranks", "late_rank"),
    "collectives": ("ranks", "gloo_traces"),
    "compare": ("compare", "char_lm-after/version_0"),
}
"""Of each picture the view and the run."""
WIDTH, LEAST, TALLEST = 1360, 500, 1400
DARK = ("overview", "timeline")
BASE = "char_lm-before/version_0"


def main() -> None:
    """Start TensorBoard and a browser, and take the pictures."""
    logdir, folder, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(PICTURES)
    runs = {PICTURES[name][1] for name in names}
    if missing := {run for run in runs if not Path(logdir, run).is_dir()}:
        sys.exit(f"{logdir} has no {', '.join(sorted(missing))}: see how they are written above.")
    with serve_tensorboard("--logdir", logdir) as url, closing(Browser()) as browser:
        for name in names:
            _take(browser, f"{url}/data/plugin_entry.html?name=gpuprof", name, folder)


def _take(browser, url, name, folder) -> None:
    view, run = PICTURES[name]
    browser.resize(WIDTH, LEAST)
    browser.open(
        f"{url}#p.gpuprof.run={quote(run, safe='')}"
        f"&p.gpuprof.view={view}&p.gpuprof.base={quote(BASE, safe='')}"
    )
    browser.wait("return document.querySelector('.card')")
    time.sleep(2.5)
    whole = browser.run("return document.documentElement.scrollHeight")
    frame = LEAST - browser.run("return window.innerHeight")
    browser.resize(WIDTH, min(TALLEST, whole) + frame)
    time.sleep(1.0)
    browser.screenshot(folder / f"{name}.png")
    if name in DARK:
        browser.run("document.body.classList.add('dark-mode')")
        time.sleep(2.0)
        browser.screenshot(folder / f"{name}-dark.png")


if __name__ == "__main__":
    main()
