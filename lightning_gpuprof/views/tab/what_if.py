"""What a run's step would take with chosen findings fixed."""

from collections.abc import Mapping, Sequence
from typing import Any

from lightning_gpuprof.analysis.savings.run_what_if import (
    Claim,
    StepEstimate,
    claimed_places,
    without,
)
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError


def what_if(run: str, removing: str | Sequence[str], *, session: int | None = None) -> StepEstimate:
    """Estimate a run's step with the causes of some findings removed.

    Args:
        run: A run's log dir.
        removing: Ids of findings of its report, such as `"data-wait"`.
        session: Session number; by default the last fit that recorded steps.

    Returns:
        The step and what is saved of it, each from low to high, in ns.

    Raises:
        RecordError: There is no such run, or its report has no such finding.
    """
    wanted = [removing] if isinstance(removing, str) else list(removing)
    document = load_report(run, session=session).payload()
    return estimate(document, wanted)


def estimate(document: Mapping[str, Any], removing: Sequence[str]) -> StepEstimate:
    """Estimate from a `report --json` document.

    Raises:
        RecordError: The report has no such finding, or no step.
    """
    known = {finding["id"] for finding in document["findings"] if finding["saving_ns"]["high"]}
    for finding_id in removing:
        if finding_id not in known:
            raise RecordError(
                f"This report claims no time for {finding_id!r}. It does for: "
                f"{', '.join(sorted(known)) or 'nothing'}."
            )
    step_ns = document["steps"]["step_ns"]
    if step_ns is None:
        raise RecordError("No training step was recorded, so there is nothing to estimate.")
    return without(
        [_claim(f, document) for f in document["findings"] if f["id"] in removing],
        step_ns=step_ns,
        phase_ns={name: row["mean_ns"] or 0 for name, row in document["phases"].items()},
    )


def what_if_payload(document: Mapping[str, Any], removing: Sequence[str]) -> dict[str, Any]:
    """Return the estimate as JSON types, for the tab."""
    found = estimate(document, removing)
    return {
        "removing": list(removing),
        "step_ns": found.step_ns,
        "step_low_ns": found.step_low_ns,
        "step_high_ns": found.step_high_ns,
        "saving_ns": {"low": found.saving_low_ns, "high": found.saving_high_ns},
    }


def what_if_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the estimate for the findings named in `removing`, separated by commas.

    Raises:
        QueryError: The report has no such finding, or no step.
    """
    removing = [name for name in query.text("removing").split(",") if name]
    try:
        return what_if_payload(run.report(query), removing)
    except RecordError as error:
        raise QueryError(str(error)) from error


def _claim(finding: Mapping[str, Any], document: Mapping[str, Any]) -> Claim:
    rows = document["phases"].items()
    parts = {(phase, part["name"]) for phase, row in rows for part in row.get("parts", ())}
    where = [(at.get("phase"), at.get("name")) for at in finding["where"]]
    saving = finding["saving_ns"]
    return Claim(finding["id"], claimed_places(where, parts), saving["low"], saving["high"])
