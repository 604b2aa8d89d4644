"""A cause: a fault with a knob, the same run with its fix, and the finding to expect."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workload import Setup


@dataclass(frozen=True)
class Cause:
    """One way to slow a training run down.

    Args:
        finding: The finding id that should come first.
        also: Other ids that name the same cause rightly, each with its reason in the file.
        fix: What the fixed run does differently, in one sentence.
        faulty: Knob to the run with the fault.
        fixed: The same knob to the run with the fix.
        knob: What the knob is, with its unit.
        guess: A knob that costs very roughly a millisecond per step: where calibration begins.
        whole: The knob is a whole number.
        full_length: Calibration takes runs of full length, as the cost of a step depends on how
            many there are.
        advised: The fault with nothing but the loader changed, where the report's change may be
            other loader settings: the fix that is then measured is the one proposed.
        settings: Arguments that the report may propose, by name, and the knob's run with that
            number: the fix that is then measured is the one proposed.
        advice_says: A regular expression that the advice or change must match where the id
            alone could still advise the wrong thing.
        name: Its file's, by `CAUSES`.
    """

    finding: str
    fix: str
    faulty: Callable[[float], Setup]
    fixed: Callable[[float], Setup]
    knob: str
    guess: float
    whole: bool = False
    full_length: bool = False
    advised: Callable[[float], Setup] | None = None
    settings: Mapping[str, Callable[[int, float], Setup]] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    advice_says: str | None = None
    name: str = ""

    def accepts(self, finding_id: str) -> bool:
        """Tell whether a finding of this id names the cause."""
        return finding_id == self.finding or finding_id in self.also

    def asked(self, finding: Mapping[str, Any] | None) -> tuple[str, int] | None:
        """Return the setting that a finding proposes, where the fix to measure is that."""
        change = (finding or {}).get("change") or ""
        for name in self.settings:
            asked = re.search(rf"\b{name}=(\d+)\)", change)
            # Code beside the setting is no longer the setting alone.
            if asked is not None and "\n" not in change:
                return name, int(asked[1])
        proposed = re.search(r"num_workers=(\d+)", change)
        if self.advised is None or proposed is None:
            return None
        return "num_workers", int(proposed[1])

    def remedy(self, finding: Mapping[str, Any] | None, knob: float) -> Setup:
        """Return the run to measure the saving by: as the finding proposes, else `fixed`.

        A prediction is one for the change that comes with it. Where that change is a setting,
        which can be applied without reading the code, it is applied.
        """
        asked = self.asked(finding)
        if asked is None:
            return self.fixed(knob)
        name, workers = asked
        if name in self.settings:
            return self.settings[name](workers, knob)
        assert self.advised is not None
        setup = self.advised(knob)
        loader = {**setup.loader, "num_workers": workers, "persistent_workers": workers > 0}
        return replace(setup, loader=loader)
