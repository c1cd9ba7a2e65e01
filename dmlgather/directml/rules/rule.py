"""What a rule is, and how rules run: all of them, except those that an earlier error leaves nothing to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from dmlgather.directml.codes import CODES
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import Finding, Severity
from dmlgather.directml.support import Row, row_at, rows_of
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import FeatureLevel

D_co = TypeVar("D_co", bound=OperatorDesc, covariant=True)


class Case(Generic[D_co]):
    """What an operator's rule looks at: a descriptor at a feature level. tensors: the descriptor's, in binding order."""

    __slots__ = ("desc", "level", "tensors")

    def __init__(self, desc: D_co, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        operator = desc.operator
        self.tensors = tuple(
            [
                TensorCase(operator.name, level, desc.tensor(field), wire_name(field), field == operator.output)
                for field in operator.tensors
            ]
        )


class TensorCase(NamedTuple):
    """What a tensor's rule looks at: one tensor of an operator at a feature level, and nothing else of its descriptor."""

    operator: str
    level: FeatureLevel
    tensor: BufferTensorDesc
    name: str
    is_output: bool

    @property
    def table(self) -> tuple[Row, ...]:
        """The operator's rows of the support table."""
        return rows_of(self.operator)

    @property
    def row(self) -> Row | None:
        """The row in force for the tensor; None where the operator is newer than the level."""
        return row_at(self.operator, self.name, self.level)


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where a rule does not hold. The rule's code adds sentence, severity and source."""

    path: str
    expected: str
    got: str
    remedy: str
    level: FeatureLevel | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the rules.

    code: one of `CODES`, which holds its sentence, severity and source. check: yields the faults of a case. needs: codes of
    earlier rules without which there is nothing to judge: they erred, or could not be judged themselves. alternatives: fields
    for which another value may be what was meant; the remedy names each value that mends this fault and causes no other.
    about: of a tensor's rule, the field that it judges where it is stated; most tensors state few.
    """

    code: str
    check: Callable[[Any], Iterable[Fault]]
    needs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    about: str = ""

    def __post_init__(self) -> None:
        for code in (self.code, *self.needs):
            if code not in CODES:
                raise ValueError(f"{code} is not in the registry of codes")


_UNSTATED = {name: field.default for name, field in BufferTensorDesc.model_fields.items()}
"""What the fields of a tensor hold that states nothing there."""


class TensorRules:
    """Rules that are run for each tensor: those about a field only where the tensor states it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._about = tuple(sorted({rule.about for rule in self._rules if rule.about}))
        self._chosen: dict[tuple[bool, ...], tuple[Rule, ...]] = {}

    def of(self, tensor: BufferTensorDesc) -> tuple[Rule, ...]:
        """The rules for one tensor, in order."""
        stated = tuple([getattr(tensor, name) != _UNSTATED[name] for name in self._about])
        chosen = self._chosen.get(stated)
        if chosen is None:
            silent = {name for name, known in zip(self._about, stated, strict=True) if not known}
            chosen = self._chosen[stated] = tuple(rule for rule in self._rules if rule.about not in silent)
        return chosen


def run(rules: Iterable[Rule], case: Case[OperatorDesc] | TensorCase, unjudged: set[str]) -> Iterator[tuple[Rule, Finding]]:
    """Run `rules` in order. `unjudged` collects the codes that erred or, for want of another, could not be judged."""
    for rule in rules:
        if unjudged and not unjudged.isdisjoint(rule.needs):
            unjudged.add(rule.code)
            continue
        for fault in rule.check(case):
            code = CODES[rule.code]
            if code.severity is Severity.ERROR:
                unjudged.add(rule.code)
            yield (
                rule,
                code.finding(
                    fault.path,
                    expected=fault.expected,
                    got=fault.got,
                    remedy=fault.remedy,
                    level=fault.level,
                    source=fault.source,
                ),
            )
