"""The report on the results of a folder of cases, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import ConfigDict, computed_field

from dmlgather.comparing.mismatches import Difference
from dmlgather.record import Record
from dmlgather.wording import counted

Outcome = Literal["equal", "different", "refused", "failed", "missing"]
"""The outcome of a case; `OperatorTally` describes each."""

SHOWN = 20
"""Largest number of cases of each outcome in the text."""


class OperatorTally(Record):
    """The number of cases of an operator with each outcome."""

    operator: str
    """The operator: "GATHER"."""

    equal: int
    """Cases whose result has the same bits as dmlgather's."""

    different: int
    """Cases whose result has other bits or another size."""

    refused: int
    """Legal cases that DirectML refused."""

    failed: int
    """Cases for which DxDispatch was not started, timed out, crashed or wrote nothing."""

    missing: int
    """Cases that were not run, or not to their end."""


class CaseOutcome(Record):
    """A case whose outcome is not "equal"."""

    case: str
    """The name of the case."""

    operator: str
    """The operator: "GATHER"."""

    outcome: Outcome
    """The outcome of the case."""

    message: str | None = None
    """The message of DxDispatch, or the fault of the result."""

    difference: Difference | None = None
    """The elements with other bits."""

    def __str__(self) -> str:
        reason = self.difference if self.difference is not None else self.message
        return f"{self.outcome}: {self.case} {self.operator}" + ("" if reason is None else f": {reason}")


class SettledQuestion(Record):
    """DirectML's answer to a question that its documents leave open."""

    model_config = ConfigDict(extra="ignore")  # JSON has a computed field, which the model does not take

    case: str
    """The name of the case."""

    operator: str
    """The operator: "GATHER"."""

    asks: str
    """The question."""

    answer: str | None
    """DirectML's behaviour; null if the case does not show it."""

    decided: str
    """dmlgather's behaviour."""

    message: str | None = None
    """The message of DxDispatch, or the reason why there is no answer."""

    @computed_field  # type: ignore[prop-decorator] # computed_field decorates properties
    @property
    def agrees(self) -> bool | None:
        """True if dmlgather behaves like DirectML; null if there is no answer."""
        return None if self.answer is None else self.answer == self.decided

    def __str__(self) -> str:
        if self.answer is None:
            return f"not settled: {self.case}: {self.message}\n  {self.asks}"
        ours = "as in dmlgather" if self.agrees else f"in dmlgather: {self.decided}"
        message = "" if self.message is None else f"\n  {self.message}"
        return f"settles: {self.case}: {self.answer} ({ours})\n  {self.asks}{message}"


class ConformanceReport(Record):
    """The results of a folder of cases, compared with dmlgather's."""

    model_config = ConfigDict(extra="ignore")  # JSON has a computed field, which the model does not take

    tool: Literal["dmlgather"] = "dmlgather"
    """The program that wrote the report."""

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
    """The numbers of random cases of each operator."""

    cases: tuple[CaseOutcome, ...]
    """The random cases whose outcome is not "equal"."""

    questions: tuple[SettledQuestion, ...]
    """The open questions with DirectML's answers."""

    @computed_field  # type: ignore[prop-decorator] # computed_field decorates properties
    @property
    def exit_code(self) -> int:
        """0 if all random cases are equal, else 1."""
        return 1 if self.cases else 0

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report as text."""
        adapters = " and ".join(f"'{name}'" for name in self.adapters) or "an adapter that DxDispatch did not name"
        number = sum(tally.equal + tally.different + tally.refused + tally.failed + tally.missing for tally in self.operators)
        yield f"{counted(number, 'case')} at feature level {self.level}, seed {self.seed}, on {adapters}"
        titles = ("operator", "equal", "different", "refused", "failed", "missing")
        yield f"{titles[0]:<16}" + "".join(f"{title:>11}" for title in titles[1:])
        for tally in self.operators:
            numbers = (tally.equal, tally.different, tally.refused, tally.failed, tally.missing)
            yield f"{tally.operator:<16}" + "".join(f"{number:>11}" for number in numbers)
        for outcome in ("different", "refused", "failed", "missing"):
            cases = [case for case in self.cases if case.outcome == outcome]
            yield from map(str, cases[:SHOWN])
            if len(cases) > SHOWN:
                yield f"{outcome}: {counted(len(cases) - SHOWN, 'more case')}; --json lists all"
        rank = {False: 0, None: 1, True: 2}
        yield from map(str, sorted(self.questions, key=lambda question: rank[question.agrees]))
        agree, differ, unsettled = (sum(question.agrees is value for question in self.questions) for value in (True, False, None))
        if self.questions:
            yield f"{counted(agree + differ, 'question')} settled, {differ} otherwise than in dmlgather; {unsettled} not settled"
