"""Documents of comparisons, trials and files against those of tests/golden.

`make golden` writes them anew; what has changed is read as a diff.
"""

import os
from pathlib import Path

import msgspec
import pytest
from document_samples import SAMPLES

from lightning_gpuprof.report.document import decode, encode

GOLDEN = Path(__file__).parents[1] / "golden"
REPOSITORY = str(Path(__file__).parents[2])
KINDS = [kind for kind in SAMPLES if kind not in ("run", "fault")]
"""Documents of runs are left out: there are too many of them to read as a diff."""


def rounded(value):
    """Return a document's values with nine digits: the last ones depend on the machine."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module", params=KINDS)
def documents(request, tmp_path_factory):
    """Documents of one kind as text by file, without the folders of this machine."""
    folder = tmp_path_factory.mktemp("golden")
    texts = {}
    for name, document in SAMPLES[request.param](folder).items():
        values = rounded(msgspec.json.decode(encode(document)))
        text = msgspec.json.format(msgspec.json.encode(values), indent=1).decode() + "\n"
        text = text.replace(str(folder), "logs").replace(REPOSITORY + "/", "")
        texts[GOLDEN / request.param / f"{name.replace(' ', '-')}.json"] = text
    return texts


def test_a_document_is_the_one_that_is_in_the_repository(documents):
    if os.environ.get("GOLDEN") == "write":
        for path, text in documents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path, text in documents.items():
        assert path.read_text(encoding="utf-8") == text, "a wanted change? run: make golden"


def test_no_document_in_the_repository_is_of_a_sample_that_is_gone(documents):
    folder = next(iter(documents)).parent
    assert set(folder.iterdir()) == set(documents)


def test_a_golden_document_can_be_read_back(documents):
    for path in documents:
        assert decode(path.read_bytes()).schema_version == 2
