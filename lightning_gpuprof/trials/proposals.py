"""Which changes are worth a trial, best first, and why the others are not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.engine import step_of
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.trials import FASTER, NOT_RUN, Trial
from lightning_gpuprof.trials.change import Change, Settings, changes, merged, snippet
from lightning_gpuprof.trials.pairs import MIN_FRAC

_UNSAID = 0.1
"""A change that no finding proposes is expected to save this share of what it could at most."""


@dataclass(frozen=True)
class Pick:
    """A change with a value to try."""

    change: Change
    value: Any


@dataclass(frozen=True)
class Context:
    """A run of the program, by which changes are chosen, and what was found in it, best first."""

    run: RunResults
    findings: Sequence[Finding] = ()

    def record(self, pick: Pick, **measured: Any) -> Trial:
        """Return a change's trial."""
        change = pick.change
        saving = next((f.saving_ns for f in self.findings if f.id in change.findings), None)
        about = {
            "change": change.name,
            "value": pick.value,
            "alters": change.alters,
            "ceiling": change.ceiling,
            "findings": change.findings,
            "predicted_ns": None if saving is None else (saving.low, saving.high),
            "paste": snippet(self.settings([pick])),
        }
        return Trial(**{**about, **measured})

    def settings(self, picks: Sequence[Pick]) -> Settings:
        """Return what to write for several changes."""
        return merged([pick.change.settings(pick.value, self.run) for pick in picks])

    def propose(
        self, wanted: Sequence[tuple[str, Any]] = (), finding: str | None = None
    ) -> tuple[list[Pick], list[Trial]]:
        """Choose what to try, best first; return also what is computed or not worth a trial.

        `wanted` names changes, each with a value or None; without any, all that suit the run, or
        that answer a finding, are chosen.
        """
        known = changes()
        if unknown := [name for name, _ in wanted if name not in known]:
            raise ConfigError(f"No change is called {unknown[0]!r}. There are: {', '.join(known)}.")
        asked = [(known[name], value) for name, value in wanted]
        asked = asked or [(c, None) for c in known.values() if finding in (None, *c.findings)]
        if not asked:
            ids = sorted({one for change in known.values() for one in change.findings})
            raise ConfigError(f"No change answers {finding!r}. Some answer {', '.join(ids)}.")
        picks: list[Pick] = []
        others: list[Trial] = []
        for change, value in sorted(asked, key=lambda one: -self._expected_frac(one[0])):
            values, share = change.values(self.run), change.share(self.run)
            found = next((f for f in self.findings if f.id in change.findings), None)
            if isinstance(values, list) and value is None and share < MIN_FRAC:
                values = f"all that it could save is {share:.1%} of a step"
            chosen = wanted or finding or found or change.ceiling
            if isinstance(values, list) and change.alters and not chosen:
                values = f"it alters results, and no finding names it: --change {change.name} does"
            if change.computed and found is not None:
                gain = found.saving_ns.middle / (step_of(found, self.run) or 1)
                record = self.record(Pick(change, None), verdict=FASTER, gain_frac=gain)
                others.append(replace(record, computed=True, paste=found.change or ""))
            elif isinstance(values, str):
                others.append(Trial(change=change.name, value=value, verdict=NOT_RUN, note=values))
            else:
                picks += [Pick(change, one) for one in (values if value is None else [value])]
        return picks, others

    def _expected_frac(self, change: Change) -> float:
        """Return the share of the step that a change is expected to save; a ceiling comes first."""
        step_ns = self.run.step_ns or 1
        said = [f.saving_ns.counted_on for f in self.findings if f.id in change.findings]
        expected = max([_UNSAID * change.share(self.run), *(ns / step_ns for ns in said)])
        return 2.0 if change.ceiling else expected
