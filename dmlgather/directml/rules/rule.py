"""What a rule is, and how rules run: all of them, except those that an earlier error leaves nothing to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from dmlgather.directml.codes import CODES
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import Finding, Severity
from dmlgather.directml.support import Row, rows_of
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import FeatureLevel

D_co = TypeVar("D_co", bound=OperatorDesc, covariant=True)


@dataclass(frozen=True)
class Case(Generic[D_co]):
    """What an operator's rule looks at: a descriptor at a feature level."""

    desc: D_co
    level: FeatureLevel

    @cached_property
    def tensors(self) -> tuple[TensorCase, ...]:
        """Its tensors in binding order."""
        desc, operator = self.desc, self.desc.operator
        return tuple(
            TensorCase(operator.name, self.level, desc.tensor(field), wire_name(field), field == operator.output)
            for field in operator.tensors
        )


@dataclass(frozen=True, slots=True)
class TensorCase:
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


def run(rules: Iterable[Rule], case: Case[OperatorDesc] | TensorCase, unjudged: set[str]) -> Iterator[tuple[Rule, Finding]]:
    """Run `rules` in order. `unjudged` collects the codes that erred or, for want of another, could not be judged."""
    for rule in rules:
        if rule.about and getattr(case.tensor, rule.about) == _UNSTATED[rule.about]:  # type: ignore[union-attr] # a TensorCase then
            continue
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
