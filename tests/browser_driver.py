"""Drives Debian's headless Chromium through chromedriver's HTTP, with nothing but the stdlib."""

import base64
import json
import shutil
import socket
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any
from urllib.parse import urlsplit

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
TIMEOUT_S = 20.0


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_it_answers(url: str, process: "Popen[bytes]") -> None:
    """Return once a server of this machine has started; raise where it has ended instead."""
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except (urllib.error.URLError, ConnectionError):
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.03)


class Browser:
    """One headless browser window."""

    def __init__(self, *, width: int = 1440, height: int = 900) -> None:
        self._port = free_port()
        self._profile = tempfile.mkdtemp(prefix="gpuprof-chromium-")
        self._driver = Popen(
            [shutil.which("chromedriver") or "chromedriver", f"--port={self._port}"],
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        wait_until_it_answers(f"http://127.0.0.1:{self._port}/status", self._driver)
        options = {
            "binary": shutil.which("chromium") or "chromium",
            "args": [*FLAGS, f"--user-data-dir={self._profile}", f"--window-size={width},{height}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{value['error']}: {value['message']}") from None

    def close(self) -> None:
        """End the browser and its driver."""
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=10)
            shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str) -> None:
        """Load a page, from nothing even where only the hash differs."""
        self._call("POST", f"{self._session}/url", {"url": "about:blank"})
        self.take_log()
        self.take_requests()
        self._call("POST", f"{self._session}/url", {"url": url})

    def resize(self, width: int, height: int) -> None:
        """Set the window's size."""
        self._call("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def emulate_size(self, width: int, height: int) -> None:
        """Lay pages out for a screen of this size, which may be narrower than a window can be."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", size)

    def forget_size(self) -> None:
        """Lay pages out for the window again."""
        self._command("Emulation.clearDeviceMetricsOverride", {})

    def run(self, script: str, *args: Any) -> Any:
        """Run a script body in the current frame and return what it returns."""
        return self._call(
            "POST", f"{self._session}/execute/sync", {"script": script, "args": list(args)}
        )

    def wait(self, script: str, *args: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Run a script again until it returns something true."""
        until = time.monotonic() + timeout_s
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > until:
                raise TimeoutError(f"never true: {script} {args}\npage says: {self.text()[:2000]}")
            time.sleep(0.03)

    def enter_frame(self) -> None:
        """Go into the page's first iframe once that is there."""
        self.wait("return document.querySelector('iframe')")
        frame = self.run("return document.querySelector('iframe')")
        self._call("POST", f"{self._session}/frame", {"id": frame})

    def leave_frame(self) -> None:
        """Go back to the top page."""
        self._call("POST", f"{self._session}/frame", {"id": None})

    def text(self) -> str:
        """Return what a person reads in the current frame."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def click(self, css: str, text: str | None = None) -> None:
        """Click the first element of a selector, of those with this text where one is given."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].find(e => "
            "arguments[1] === null || e.textContent.trim() === arguments[1]) || null"
        )
        element = self.wait(script, css, text)
        self._call("POST", f"{self._session}/element/{element[ELEMENT]}/click")

    def type(self, css: str, text: str) -> None:
        """Type into an element."""
        element = self.run("return document.querySelector(arguments[0])", css)
        self._call("POST", f"{self._session}/element/{element[ELEMENT]}/value", {"text": text})

    def emulate_media(self, media: str) -> None:
        """Show the page as on another medium, such as "print"; "" is the screen again."""
        self._command("Emulation.setEmulatedMedia", {"media": media})

    def _command(self, name: str, params: dict[str, Any]) -> None:
        self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": params})

    def screenshot(self, path: str | Path) -> None:
        """Write a picture of the window."""
        Path(path).write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def take_log(self) -> list[str]:
        """Return the console's warnings and errors since last asked."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def take_requests(self) -> list[str]:
        """Return the addresses requested over a network since last asked."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "performance"})
        urls = []
        for entry in entries:
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return [url for url in urls if urlsplit(url).scheme not in ("data", "blob", "about")]
