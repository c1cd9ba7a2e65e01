"""Goals for the kernels of a counted table. `GOALS` are those of the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
"""Recorded figures of a case: "fetched", "used", "kernel", and `REASON` if the case has a reason."""

REASON = "reason"
"""Key of the reason why blocks of any kernel fetch more than must be loaded."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A missed goal of a case. figures: "fetched", "used" or both. reason: the explanation if it covers all of them, or empty."""

    figures: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals for a table. used: the least share of the bytes in stored sectors that are stored. needed: the least share of loaded
    sectors that must be loaded, 1 / fetched. share: the share of all cases that should meet both goals.
    """

    used: float
    needed: float
    share: float

    def misses(self, cases: Mapping[str, Figures]) -> dict[str, Miss]:
        """Return the cases that miss a goal, by name."""
        found = {}
        for name, figures in cases.items():
            met = {"fetched": figures["fetched"] * self.needed <= 1, "used": figures["used"] >= self.used}
            if missed := tuple(figure for figure, reached in met.items() if not reached):
                found[name] = Miss(missed, figures.get(REASON, "") if missed == ("fetched",) else "")
        return found

    def summary(self, cases: Mapping[str, Figures]) -> str:
        misses = self.misses(cases)
        met, reasons = len(cases) - len(misses), sum(bool(miss.reason) for miss in misses.values())
        return (
            f"{met} of {len(cases)} cases ({100 * met / len(cases):.0f} %) meet both goals: used is at least {self.used}, and "
            f"1 / fetched at least {self.needed}. The aim is {100 * self.share:.0f} %. "
            f"{reasons} of the {len(misses)} others have a reason."
        )

    def report(self, cases: Mapping[str, Figures]) -> Iterator[str]:
        """Yield the summary, and a line for each case that misses a goal."""
        yield self.summary(cases)
        for name, miss in self.misses(cases).items():
            figures = ", ".join(f"{figure} {cases[name][figure]}" for figure in miss.figures)
            yield f"  {name} ({cases[name]['kernel']}): {figures}{miss.reason and f'; {miss.reason}'}"


GOALS = Goals(used=0.95, needed=0.85, share=0.95)
