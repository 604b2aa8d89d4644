"""Fetches the browser bundle of Plotly from npm: `python scripts/fetch_plotly.py [VERSION]`.

The charts of the PROFILE tab and of the HTML report are lines, areas, bars and points, all of which
the partial bundle `basic` draws, a quarter of the whole. The package holds it compressed, as
browsers take it, with its licence; version and checksums are noted beside it. Run this with a newer
version, then the browser tests, and commit what changed.
"""

import base64
import gzip
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "plotly.js-basic-dist-min"
FOLDER = Path(__file__).parents[1] / "lightning_gpuprof" / "tab" / "static" / "plotly"
BUNDLE, LICENSE = "plotly-basic.min.js", "LICENSE"
NOTE = FOLDER / "source.json"


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else json.loads(NOTE.read_text())["version"]
    published = json.loads(
        _npm("view", f"{PACKAGE}@{version}", "dist.integrity", "license", "--json")
    )
    with tempfile.TemporaryDirectory() as folder:
        _npm("pack", f"{PACKAGE}@{version}", "--pack-destination", folder)
        (archive,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != published["dist.integrity"]:
            raise SystemExit(f"{archive.name} is not what the registry says it is: sha512-{digest}")
        FOLDER.mkdir(exist_ok=True)
        with tarfile.open(archive) as members:
            bundle, license_text = (_content(members, name) for name in (BUNDLE, LICENSE))
    (FOLDER / f"{BUNDLE}.gz").write_bytes(gzip.compress(bundle, 9, mtime=0))
    (FOLDER / LICENSE).write_bytes(license_text)
    note = {
        "package": PACKAGE,
        "version": version,
        "license": published["license"],
        "integrity": published["dist.integrity"],
        "file": BUNDLE,
        "sha256": hashlib.sha256(bundle).hexdigest(),
    }
    NOTE.write_text(json.dumps(note, indent=2) + "\n")
    print(f"{PACKAGE} {version}: {len(bundle):,} bytes in {FOLDER}")


def _content(members: tarfile.TarFile, name: str) -> bytes:
    member = members.extractfile(f"package/{name}")
    if member is None:
        raise SystemExit(f"the package has no file {name}")
    return member.read()


def _npm(*arguments: str) -> str:
    return subprocess.run(["npm", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
