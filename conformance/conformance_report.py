"""What DirectML made of a folder of cases, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import ConfigDict, computed_field

from dmlgather.comparing.mismatches import Difference
from dmlgather.record import Record
from dmlgather.wording import counted

Outcome = Literal["equal", "different", "refused", "failed", "missing"]
"""Of a case: the same bits; other bits, or a result that cannot hold the output; DirectML refused it; DxDispatch was not started,
timed out, crashed or wrote nothing; it was not run to its end."""

SHOWN = 20
"""Cases that the text shows at most of each outcome."""


class OperatorTally(Record):
    """How many cases of an operator had which outcome."""

    operator: str
    """The operator: "GATHER"."""

    equal: int
    """The same bits as dmlgather's."""

    different: int
    """Other bits, or a result of another size."""

    refused: int
    """DirectML refused it, though the case is legal."""

    failed: int
    """DxDispatch was not started, timed out, crashed or wrote nothing."""

    missing: int
    """It was not run to its end."""


class CaseOutcome(Record):
    """A case whose outcome is not "equal"."""

    case: str
    """Its name."""

    operator: str
    """The operator: "GATHER"."""

    outcome: Outcome
    """What became of it."""

    message: str | None = None
    """What DxDispatch said, or what is wrong with the result."""

    difference: Difference | None = None
    """Where the bits differ."""

    def __str__(self) -> str:
        said = self.difference if self.difference is not None else self.message
        return f"{self.outcome}: {self.case} {self.operator}" + ("" if said is None else f": {said}")


class SettledQuestion(Record):
    """What DirectML does where the documents leave something open."""

    model_config = ConfigDict(extra="ignore")  # so that it can be read back with its computed field

    case: str
    """The name of the case."""

    operator: str
    """The operator: "GATHER"."""

    asks: str
    """What is open."""

    answer: str | None
    """What DirectML does; None where the case settles nothing."""

    decided: str
    """What dmlgather does."""

    message: str | None = None
    """What DxDispatch said, or why nothing is settled."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def agrees(self) -> bool | None:
        """Whether dmlgather does the same; None where nothing is settled."""
        return None if self.answer is None else self.answer == self.decided

    def __str__(self) -> str:
        if self.answer is None:
            return f"not settled: {self.case}: {self.message}\n  {self.asks}"
        ours = "as in dmlgather" if self.agrees else f"in dmlgather: {self.decided}"
        said = "" if self.message is None else f"\n  {self.message}"
        return f"settles: {self.case}: {self.answer} ({ours})\n  {self.asks}{said}"


class ConformanceReport(Record):
    """What DirectML made of a folder of cases."""

    model_config = ConfigDict(extra="ignore")  # so that a report with its computed fields can be read back

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote this."""

    version: str
    """The version of dmlgather that read the results."""

    written_by: str
    """The version of dmlgather that wrote the cases."""

    level: str
    """The feature level at which the cases are legal."""

    seed: int
    """The seed of the random cases."""

    adapters: tuple[str, ...]
    """The adapters on which DxDispatch ran."""

    operators: tuple[OperatorTally, ...]
    """Each operator, with the numbers of its cases; the questions are not among them."""

    cases: tuple[CaseOutcome, ...]
    """The cases whose outcome is not "equal"."""

    questions: tuple[SettledQuestion, ...]
    """What the documents leave open."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def exit_code(self) -> int:
        """0 when every case is equal, else 1; the questions do not count."""
        return 1 if self.cases else 0

    def lines(self) -> Iterator[str]:
        """The report as text."""
        where = " and ".join(f"'{name}'" for name in self.adapters) or "an adapter that DxDispatch did not name"
        number = sum(tally.equal + tally.different + tally.refused + tally.failed + tally.missing for tally in self.operators)
        yield f"{counted(number, 'case')} at feature level {self.level}, seed {self.seed}, on {where}"
        titles = ("operator", "equal", "different", "refused", "failed", "missing")
        yield f"{titles[0]:<16}" + "".join(f"{title:>11}" for title in titles[1:])
        for tally in self.operators:
            numbers = (tally.equal, tally.different, tally.refused, tally.failed, tally.missing)
            yield f"{tally.operator:<16}" + "".join(f"{number:>11}" for number in numbers)
        for outcome in ("different", "refused", "failed", "missing"):
            found = [case for case in self.cases if case.outcome == outcome]
            yield from map(str, found[:SHOWN])
            if len(found) > SHOWN:
                yield f"{outcome}: {counted(len(found) - SHOWN, 'more case')}; --json lists all"
        rank = {False: 0, None: 1, True: 2}
        yield from map(str, sorted(self.questions, key=lambda asked: rank[asked.agrees]))
        agree, differ, unsettled = (sum(asked.agrees is value for asked in self.questions) for value in (True, False, None))
        if self.questions:
            yield f"{counted(agree + differ, 'question')} settled, {differ} otherwise than in dmlgather; {unsettled} not settled"
