"""A real TensorBoard and a real browser; both start once for the whole folder."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import browser_driver
import pytest
from made_trials import TRIALS
from recorded import lay_out

from lightning_gpuprof.records.files import SNAPSHOT_SUFFIX
from lightning_gpuprof.records.trials import write_trials
from lightning_gpuprof.report.charts.memory_sites import write_sites

HARMLESS = ("Three.js", "swiftshader", "favicon", "font-roboto")
"""What TensorBoard's own page says on the console, with or without us."""


@pytest.fixture(scope="session")
def chromium():
    """One headless Chromium; skips where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    browser = browser_driver.Browser()
    yield browser
    browser.close()


@contextmanager
def serve_tensorboard(*args: str, prefix: str = "") -> Iterator[str]:
    """Run the real command, as a user would, and give its address."""
    port = browser_driver.free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--port", str(port), *args]
    if prefix:
        command += ["--path_prefix", prefix]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://localhost:{port}{prefix}"
    try:
        browser_driver.wait_until_it_answers(f"{url}/data/plugin/gpuprof/runs", process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)


REAL_TRACES = {
    "nvidia": "kineto/hta/trace_diff/control/control.json.gz",
    "amd": "kineto/tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz",
}


@pytest.fixture(scope="session")
def logs(made_runs, tmp_path_factory):
    root = made_runs.all_runs(tmp_path_factory.mktemp("logs"))
    write_trials(str(made_runs.two_cycle_run(root / "two_cycles")), TRIALS)
    made_runs.runs_of_two_models(root / "two_models")
    made_runs.worker_run(root / "workers")
    made_runs.slowing_run(root / "slowing")
    shutil.copytree(Path(__file__).parents[1] / "data" / "job" / "gloo-4", root / "gloo-4")
    lacking = made_runs.many_rank_run(root / "lacking", ranks=3, late=2)
    (lacking / "plugins" / "gpuprof" / "rank2.jsonl").unlink()
    for snapshot in lay_out(root / "h100").rglob(f"*{SNAPSHOT_SUFFIX}"):
        write_sites(str(snapshot))  # which a first look at the memory view would do
    shared = Path(__file__).parents[3] / "shared" / "traces"
    for name, trace in REAL_TRACES.items():
        if (shared / trace).is_file():
            made_runs.traced_run(root / name, shared / trace)
    return root


@pytest.fixture(scope="session")
def tensorboard(chromium, logs):
    with serve_tensorboard("--logdir", str(logs), "--load_fast", "false") as url:
        yield url


class Page:
    """The PROFILE tab as a person has it before them."""

    def __init__(self, browser, base: str) -> None:
        self.browser = browser
        self.base = base

    def open(self, run: str | None = None, *, shell: bool = False, **state: str) -> None:
        """Open the tab at an address and wait until a view is drawn.

        With `shell` inside TensorBoard's own page, else alone, as in TensorBoard's iframe: that
        takes a fifth of the time.
        """
        state = {"run": run, **state} if run else state
        parts = "".join(f"&p.gpuprof.{key}={quote(value, safe='')}" for key, value in state.items())
        self.browser.leave_frame()
        if shell:
            self.browser.open(f"{self.base}/#gpuprof{parts}")
            self.browser.enter_frame()
        else:
            entry = f"{self.base}/data/plugin_entry.html?name=gpuprof"
            self.browser.open(f"{entry}#{parts[1:]}")
        self.wait_for(".card, .empty, .welcome")

    def wait_for(self, css: str, text: str = "") -> str:
        """Wait for an element that holds a text, and return all that it says."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText ?? '')"
            ".filter(t => t.includes(arguments[1]))"
        )
        return str(self.browser.wait(script, css, text)[0])

    def text(self) -> str:
        return str(self.browser.text())

    def click(self, css: str, text: str | None = None) -> None:
        self.browser.click(css, text)

    def rows(self, css: str) -> list[list[str]]:
        """Return the cells of a table's rows as shown."""
        return self.browser.run(
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
            ".map(tr => [...tr.children].map(td => td.innerText.trim()))",
            css,
        )

    def check(self) -> None:
        """The console is clean, and nothing has left the machine."""
        assert self.complaints() == []
        urls = self.browser.take_requests()
        assert [url for url in urls if not url.startswith("http://localhost:")] == []

    def leave(self) -> None:
        """Check, and ask no more: the server ends before the browser does."""
        self.browser.leave_frame()
        self.check()
        self.browser.open("about:blank")

    def complaints(self) -> list[str]:
        """Return what the console complains about, less TensorBoard's own lines."""
        lines = self.browser.take_log()
        return [line for line in lines if not any(word in line for word in HARMLESS)]


@pytest.fixture
def page(chromium, tensorboard):
    """The tab; at the test's end the console must be clean and nothing have left the machine."""
    page = Page(chromium, tensorboard)
    yield page
    page.check()


@pytest.fixture
def serve(page):
    """Show a TensorBoard of a test's own in the tab."""
    with ExitStack() as stack:

        def show(*args, **options):
            page.base = stack.enter_context(serve_tensorboard(*args, **options))

        yield show
        page.leave()


@pytest.fixture
def file_page(chromium):
    """Opens a file from disk; at the test's end nothing else must have been asked for."""
    opened = []

    def open_file(path) -> Page:
        page = Page(chromium, "")
        chromium.leave_frame()
        chromium.open(path.as_uri())
        opened.append((page, path.as_uri()))
        page.wait_for(".card, .empty, .welcome")
        return page

    yield open_file
    for page, url in opened:
        assert page.complaints() == []
        assert [one for one in chromium.take_requests() if not one.startswith(url)] == []


@pytest.fixture
def screen(page):
    """Shows the page on a screen of a width, which may be a phone's."""
    yield lambda width: page.browser.emulate_size(width, 900)
    page.browser.forget_size()
