"""axe-core finds no serious fault of accessibility in any view; npm brings it, for tests alone."""

import shutil
import subprocess
import tarfile

import pytest

pytestmark = pytest.mark.browser

AXE = "axe-core@4.10.3"
LOOK = """
window.faults = null;
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => {
  window.faults = violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]);
});
"""
DRAWN = (
    "return document.querySelector('.tab[aria-current]')?.textContent === arguments[0]"
    " && document.querySelector('h1')?.textContent === arguments[0]"
)


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script of axe-core; skips where npm cannot bring it."""
    if not shutil.which("npm"):
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, timeout=120)
    if packed.returncode:
        pytest.skip(f"npm could not bring {AXE}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        file = files.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_has_a_serious_fault_of_accessibility(page, axe, theme):
    page.open("h100/fp32-products")
    page.browser.run(f"document.body.classList.toggle('dark-mode', {str(theme == 'dark').lower()})")
    tabs = "[...document.querySelectorAll('.tab')]"
    for view in page.browser.run(f"return {tabs}.map(tab => tab.textContent)"):
        page.browser.run(f"{tabs}.find(tab => tab.textContent === arguments[0]).click()", view)
        page.browser.wait(DRAWN, view)
        page.browser.run(f"{axe}\n{LOOK}")
        page.browser.wait("return window.faults !== null")
        assert page.browser.run("return window.faults") == [], view
