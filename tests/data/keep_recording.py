"""Keeps a recorded run as test data: its records, traces and snapshots, and none of its paths.

    python tests/data/keep_recording.py RUN FOLDER [OLD=NEW ...]

Copies what `RUN/plugins/gpuprof` recorded to FOLDER, with each OLD in it replaced by NEW. Both must
be equally long: a pickle says how long its strings are, and nothing else of it is then touched.
Analyses and drawings are left out, they are made from the traces. Traces stay compressed, snapshots
become so, both without a time stamp: the same run gives the same bytes.
"""

import gzip
import shutil
import sys
from pathlib import Path

DERIVED = (".analysis.json", ".layout")


def keep(run: Path, folder: Path, replaced: dict[bytes, bytes]) -> None:
    """Write the run's recordings to `folder`; what was there before is gone."""
    source, target = run / "plugins" / "gpuprof", folder / "plugins" / "gpuprof"
    shutil.rmtree(folder, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.name.endswith(DERIVED):
            continue
        content = path.read_bytes()
        packed = path.suffix in (".gz", ".pickle")
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        for old, new in replaced.items():
            content = content.replace(old, new)
        name = f"{path.name.removesuffix('.gz')}.gz" if packed else path.name
        (target / name).write_bytes(gzip.compress(content, 9, mtime=0) if packed else content)


def main() -> None:
    """Read the command line."""
    run, folder, *pairs = sys.argv[1:]
    replaced = dict(pair.encode().split(b"=", 1) for pair in pairs)
    if odd := [old for old, new in replaced.items() if len(old) != len(new)]:
        sys.exit(f"{odd} and what replaces them differ in length.")
    keep(Path(run), Path(folder), replaced)


if __name__ == "__main__":
    main()
