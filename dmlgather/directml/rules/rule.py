"""Rules, the cases that they check, and a function that runs them in order."""

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
    """A descriptor at a feature level, for the rules of operators. `tensors`: its tensors in binding order."""

    __slots__ = ("desc", "level", "tensors")

    def __init__(self, desc: D_co, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        fields, output = desc.operator.tensors, desc.operator.output
        self.tensors = tuple([TensorCase(desc, level, desc.tensor(name), wire_name(name), name == output) for name in fields])


class TensorCase(NamedTuple):
    """One tensor of a descriptor at a feature level, for the rules of tensors."""

    desc: OperatorDesc
    level: FeatureLevel
    tensor: BufferTensorDesc
    name: str
    is_output: bool

    @property
    def operator(self) -> str:
        """Return the operator's name, as in the support table."""
        return self.desc.operator.name

    @property
    def table(self) -> tuple[Row, ...]:
        """Return the operator's rows of the support table."""
        return rows_of(self.operator)

    @property
    def row(self) -> Row | None:
        """Return the tensor's row of the support table at the level; None if the operator is newer."""
        return row_at(self.operator, self.name, self.level)


class Fault(NamedTuple):
    """One violation of a rule. The rule's code has the message, the severity and, if `source` is None, the source."""

    path: str
    expected: str
    got: str
    remedy: str
    level: FeatureLevel | None = None
    source: str | None = None


class Rule(NamedTuple):
    """One rule.

    `code`: a key of `CODES`, which has the message, the severity and the source. `check`: a function that yields the faults of a
    case. `needs`: codes of earlier rules; if one of these failed or was skipped, this rule is skipped. `alternatives`: fields
    that may have caused the fault; the remedy suggests values for them. `about`: for a rule of tensors, the optional field that
    it checks; tensors without this field are not checked.
    """

    code: str
    check: Callable[[Any], Iterable[Fault]]
    needs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    about: str = ""


_DEFAULTS = {name: field.default for name, field in BufferTensorDesc.model_fields.items()}


class TensorRules:
    """Rules of tensors. `of` selects the rules for the optional fields that a tensor has."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._optional_fields = tuple(sorted({rule.about for rule in self._rules if rule.about}))
        self._cache: dict[tuple[bool, ...], tuple[Rule, ...]] = {}

    def of(self, tensor: BufferTensorDesc) -> tuple[Rule, ...]:
        """Return the rules for one tensor, in order."""
        present = tuple([getattr(tensor, name) != _DEFAULTS[name] for name in self._optional_fields])
        rules = self._cache.get(present)
        if rules is None:
            fields = {"", *(name for name, is_present in zip(self._optional_fields, present, strict=True) if is_present)}
            rules = self._cache[present] = tuple(rule for rule in self._rules if rule.about in fields)
        return rules


def run(
    rules: Iterable[Rule], case: DescriptorCase[OperatorDesc] | TensorCase, failed: set[str]
) -> Iterator[tuple[Rule, Finding]]:
    """Run `rules` in order. Yield every finding, with its rule.

    `failed`: codes of failed and skipped rules. A rule that needs one of these codes is skipped. If a rule is skipped or finds an
    ERROR, its code is added.
    """
    for rule in rules:
        if failed and not failed.isdisjoint(rule.needs):
            failed.add(rule.code)
            continue
        for fault in rule.check(case):
            code = CODES[rule.code]
            if code.severity is Severity.ERROR:
                failed.add(rule.code)
            yield rule, code.finding(**fault._asdict())
