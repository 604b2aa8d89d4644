"""Runs the tab's tests with TensorBoards: `python scripts/tensorboard_versions.py [VERSION ...]`.

Each version is installed into a folder of its own, with all that it requires, and stands before the
installed one on the path. Versions before 2.21 import `pkg_resources`, which setuptools 82 removed;
they get an older setuptools, as the environments that are pinned to them have. The tests ask every
route through TensorBoard's own application, start the real command, and open the tab in a browser
where there is one. It exits with 1 if a supported version fails.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("2.16.2", "2.17.1", "2.18.0", "2.19.0", "2.20.0", "2.21.0")
WITHOUT_PKG_RESOURCES = "2.21"
TESTS = ("tests/tab", "tests/runtime/test_marker.py", "tests/browser/test_tab.py")


def outcome(version: str) -> tuple[bool, str]:
    """Return whether the tests pass with a version, and the last line that says so."""
    with tempfile.TemporaryDirectory() as folder:
        install = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        older = () if _parts(version) >= _parts(WITHOUT_PKG_RESOURCES) else ("setuptools<82",)
        subprocess.run(
            (*install, "--target", folder, f"tensorboard=={version}", *older), check=True
        )
        path = os.pathsep.join((folder, str(ROOT)))
        done = subprocess.run(
            (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS),
            cwd=ROOT, env=os.environ | {"PYTHONPATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = (done.stdout + done.stderr).strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))]
    return done.returncode == 0, "; ".join([*lines[-1:], *failed[:3]])


def _parts(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def main() -> int:
    oldest = re.search(r'"tensorboard>=([\d.]+)', (ROOT / "pyproject.toml").read_text())
    if oldest is None:
        raise SystemExit("pyproject.toml does not say which TensorBoard it requires")
    failures = 0
    for version in sys.argv[1:] or VERSIONS:
        passed, line = outcome(version)
        supported = _parts(version) >= _parts(oldest[1])
        failures += supported and not passed
        print(version, "passes" if passed else "fails", "" if supported else "(unsupported)", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
