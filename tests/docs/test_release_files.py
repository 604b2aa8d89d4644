"""What a release needs beside the package says the same as the package."""

import re
import sys
from pathlib import Path

import pytest
import yaml

import lightning_gpuprof

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
VERSION = lightning_gpuprof.__version__


def test_the_version_is_written_in_the_package_and_repeated_for_citations_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "lightning_gpuprof/__init__.py"
    assert citation["version"] == VERSION
    assert citation["license"] == project["project"]["license"]


def test_the_changelog_has_the_version():
    assert re.search(rf"^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_a_release_is_published_without_a_password_and_attested():
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    publish = release["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["permissions"]["attestations"] == "write"
    used = [step["uses"].partition("@")[0] for step in publish["steps"]]
    assert used.index("actions/attest-build-provenance") < used.index("pypa/gh-action-pypi-publish")
    assert all("password" not in step.get("with", {}) for step in publish["steps"])


@pytest.mark.parametrize("form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_an_issue_form_asks_what_github_needs(form):
    fields = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(fields)
    asked = [part for part in fields["body"] if part["type"] != "markdown"]
    assert asked
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").glob("*.yml")))
def test_a_make_target_that_a_workflow_runs_exists(workflow):
    targets = re.findall(r"^\s*(?:- )?run: make ([a-z ]+)", workflow.read_text(), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    for target in " ".join(targets).split():
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
