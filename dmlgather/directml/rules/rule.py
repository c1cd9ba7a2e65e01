"""What a rule is, and how rules run: in order; a rule is skipped if a rule that it needs failed or was skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from dmlgather.directml.codes import CODES
from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import Finding, Severity
from dmlgather.directml.support import Row, row_at, rows_of
from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import FeatureLevel

D_co = TypeVar("D_co", bound=OperatorDesc, covariant=True)


class DescriptorCase(Generic[D_co]):
    """What the rules of an operator check: a descriptor at a feature level. tensors: the descriptor's, in binding order."""

    __slots__ = ("desc", "level", "tensors")

    def __init__(self, desc: D_co, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        operator = desc.operator
        self.tensors = tuple(
            [
                TensorCase(desc, level, desc.tensor(field), wire_name(field), field == operator.output)
                for field in operator.tensors
            ]
        )


class TensorCase(NamedTuple):
    """What the rules of a tensor check: one tensor of a descriptor at a feature level."""

    desc: OperatorDesc
    level: FeatureLevel
    tensor: BufferTensorDesc
    name: str
    is_output: bool

    @property
    def operator(self) -> str:
        """The operator's name, as in the support table."""
        return self.desc.operator.name

    @property
    def table(self) -> tuple[Row, ...]:
        """The operator's rows of the support table."""
        return rows_of(self.operator)

    @property
    def row(self) -> Row | None:
        """The row in force for the tensor; None where the operator is newer than the level."""
        return row_at(self.operator, self.name, self.level)


class Fault(NamedTuple):
    """One place where a rule does not hold. The rule's code adds message, severity and, unless stated here, source."""

    path: str
    expected: str
    got: str
    remedy: str
    level: FeatureLevel | None = None
    source: str | None = None


class Rule(NamedTuple):
    """One rule.

    code: one of `CODES`, which has its message, severity and source. check: yields the faults of a case. needs: codes of earlier
    rules that have to hold before this one can be checked. alternatives: fields in which the mistake may lie; the remedy names
    each value of them that gives the stated output, else those that fix this fault and cause no other. about: for a rule of
    tensors, the optional field that it checks; the rule is not run where that field is left out.
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


_DEFAULTS = {name: field.default for name, field in BufferTensorDesc.model_fields.items()}


class TensorRules:
    """The rules of a tensor. Those about an optional field are run only where the tensor has it; most tensors have few."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._about = tuple(sorted({rule.about for rule in self._rules if rule.about}))
        self._chosen: dict[tuple[bool, ...], tuple[Rule, ...]] = {}

    def of(self, tensor: BufferTensorDesc) -> tuple[Rule, ...]:
        """The rules for one tensor, in order."""
        present = tuple([getattr(tensor, name) != _DEFAULTS[name] for name in self._about])
        chosen = self._chosen.get(present)
        if chosen is None:
            fields = {"", *(name for name, here in zip(self._about, present, strict=True) if here)}
            chosen = self._chosen[present] = tuple(rule for rule in self._rules if rule.about in fields)
        return chosen


def run(
    rules: Iterable[Rule], case: DescriptorCase[OperatorDesc] | TensorCase, failed: set[str]
) -> Iterator[tuple[Rule, Finding]]:
    """Run `rules` in order. The codes of rules that failed with an ERROR or were skipped are added to `failed`."""
    for rule in rules:
        if failed and not failed.isdisjoint(rule.needs):
            failed.add(rule.code)
            continue
        for fault in rule.check(case):
            code = CODES[rule.code]
            if code.severity is Severity.ERROR:
                failed.add(rule.code)
            yield rule, code.finding(**fault._asdict())
