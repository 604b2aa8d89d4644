"""Takes the pictures in docs/tab, each view on a run that has something to show in it.

`python tests/take_pictures.py URL FOLDER`, where TensorBoard at URL was started on the runs of
`RUNS`: the demo's two, and what `made_runs.py` writes for devices that are not at hand.
"""

import importlib.util
import sys
import time
from pathlib import Path
from urllib.parse import quote

RUNS = {
    "overview": "char_lm-before/version_0",
    "steps": "char_lm-before/version_0",
    "timeline": "a100",
    "operators": "a100",
    "roofline": "h100",
    "memory": "gpu",
    "ranks": "two_ranks",
    "compare": "char_lm-after/version_0",
}
WIDTH, TALLEST = 1360, 1400
DARK = ("overview", "timeline")
BASE = "char_lm-before/version_0"


def main() -> None:
    path = Path(__file__).with_name("browser_driver.py")
    spec = importlib.util.spec_from_file_location("browser_driver", path)
    driver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(driver)
    url, folder = sys.argv[1], Path(sys.argv[2])
    browser = driver.Browser()
    try:
        for view, run in RUNS.items():
            browser.resize(WIDTH, 900)
            browser.open(
                f"{url}/data/plugin_entry.html?name=gpuprof#p.gpuprof.run={quote(run, safe='')}"
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
    finally:
        browser.close()


if __name__ == "__main__":
    main()
