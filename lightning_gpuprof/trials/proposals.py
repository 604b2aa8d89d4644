"""Chooses the changes that are worth a trial, best first, and says why the others are not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.engine import step_of
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.trials import FASTER, NOT_RUN, ChangedSettings, Trial
from lightning_gpuprof.trials.change import Change, changes, merged, snippet
from lightning_gpuprof.trials.pairs import MIN_FRAC
from lightning_gpuprof.units import percent

_EXPECTED_WITHOUT_FINDING = 0.1
"""A change that no finding proposes is expected to save this share of what it could save at
most."""


@dataclass(frozen=True)
class Candidate:
    """A change with a value to try."""

    change: Change
    value: Any


@dataclass(frozen=True)
class WatchedRun:
    """A run of the program, with its findings, best first. It decides which changes to try."""

    results: RunResults
    findings: Sequence[Finding] = ()

    def trial(self, candidate: Candidate) -> Trial:
        """Return the trial of a candidate that was not run yet."""
        change = candidate.change
        finding = self._finding_for(change)
        predicted = finding.saving_ns if finding is not None else None
        return Trial(
            change=change.name,
            value=candidate.value,
            verdict=NOT_RUN,
            alters=change.alters,
            ceiling=change.ceiling,
            findings=change.findings,
            predicted_ns=None if predicted is None else (predicted.low, predicted.high),
            paste=snippet(self.settings([candidate])),
        )

    def settings(self, candidates: Sequence[Candidate]) -> ChangedSettings:
        """Return what to write into the program for several candidates together."""
        return merged(
            [candidate.change.settings(candidate.value, self.results) for candidate in candidates]
        )

    def propose(
        self, wanted: Sequence[tuple[str, Any]] = (), finding: str | None = None
    ) -> tuple[list[Candidate], list[Trial]]:
        """Choose what to try, best first.

        Args:
            wanted: Names of changes, each with a value or None. By default all changes are
                considered.
            finding: Consider only changes that answer the finding with this id.

        Returns:
            The candidates, and the trials of the changes that need none or are not worth it.
        """
        considered = _considered(wanted, finding)
        considered.sort(key=lambda item: -self._expected_frac(item[0]))
        candidates: list[Candidate] = []
        without_trial: list[Trial] = []
        for change, value in considered:
            answered = self._finding_for(change)
            values = change.values(self.results)
            if not isinstance(values, str):
                asked = bool(wanted or finding or answered or change.ceiling)
                values = self._reason_against(change, value, asked=asked) or values
            if change.computed and answered is not None:
                without_trial.append(self._computed_trial(change, answered))
            elif isinstance(values, str):
                without_trial.append(
                    Trial(change=change.name, value=value, verdict=NOT_RUN, note=values)
                )
            else:
                values = values if value is None else [value]
                candidates += [Candidate(change, value_to_try) for value_to_try in values]
        return candidates, without_trial

    def _reason_against(self, change: Change, value: Any, *, asked: bool) -> str:
        """Return why a change that suits the program is not worth a trial; empty if it is."""
        share = change.share(self.results)
        if value is None and share < MIN_FRAC:
            return f"it could save {percent(share)} of a step at most"
        if change.alters and not asked:
            return (
                f"it alters results, and no finding proposes it: pass --change {change.name} to "
                "try it"
            )
        return ""

    def _computed_trial(self, change: Change, finding: Finding) -> Trial:
        """Return the trial of a change whose gain the finding has computed."""
        step_ns = step_of(finding, self.results) or 1
        return replace(
            self.trial(Candidate(change, None)),
            verdict=FASTER,
            gain_frac=finding.saving_ns.middle / step_ns,
            computed=True,
            paste=finding.change or "",
        )

    def _finding_for(self, change: Change) -> Finding | None:
        """Return the first finding that a change answers."""
        return next((finding for finding in self.findings if finding.id in change.findings), None)

    def _expected_frac(self, change: Change) -> float:
        """Return the share of the step that a change is expected to save. A ceiling comes first."""
        if change.ceiling:
            return 2.0
        step_ns = self.results.step_ns or 1
        savings = [
            finding.saving_ns.counted_on / step_ns
            for finding in self.findings
            if finding.id in change.findings
        ]
        return max([_EXPECTED_WITHOUT_FINDING * change.share(self.results), *savings])


def _considered(wanted: Sequence[tuple[str, Any]], finding: str | None) -> list[tuple[Change, Any]]:
    """Return the changes to consider, each with the value that is wanted, or None."""
    by_name = changes()
    if unknown := [name for name, _ in wanted if name not in by_name]:
        raise ConfigError(
            f"No change is called {unknown[0]!r}. The changes are: {', '.join(by_name)}."
        )
    if wanted:
        return [(by_name[name], value) for name, value in wanted]
    answering = [
        (change, None)
        for change in by_name.values()
        if finding in (None, *change.findings) and not change.on_request
    ]
    if not answering:
        ids = sorted({id for change in by_name.values() for id in change.findings})
        raise ConfigError(f"No change answers {finding!r}. There are changes for {', '.join(ids)}.")
    return answering
