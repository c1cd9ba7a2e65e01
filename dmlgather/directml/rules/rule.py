"""Rules, the objects that rules check (a descriptor or a tensor, at a feature level), and the function that runs them."""

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
    """The subject of an operator's rule: a descriptor, at a feature level.

    `tensors`: its tensors, in the order in which DirectML binds them.
    """

    __slots__ = ("desc", "level", "tensors")

    def __init__(self, desc: D_co, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        fields, output = desc.operator.tensors, desc.operator.output
        self.tensors = tuple([TensorCase(desc, level, desc.tensor(name), wire_name(name), name == output) for name in fields])


class TensorCase(NamedTuple):
    """The subject of a rule of tensors: one tensor of a descriptor, at a feature level."""

    desc: OperatorDesc
    level: FeatureLevel
    tensor: BufferTensorDesc
    name: str
    is_output: bool

    @property
    def operator(self) -> str:
        """Return the operator's name in the support table, such as "GATHER"."""
        return self.desc.operator.name

    @property
    def table(self) -> tuple[Row, ...]:
        """Return the rows of the support table about the operator."""
        return rows_of(self.operator)

    @property
    def row(self) -> Row | None:
        """Return the row of the support table that is valid for the tensor at the level.

        Return None if a later level introduced the operator.
        """
        return row_at(self.operator, self.name, self.level)


class Fault(NamedTuple):
    """One violation of a rule, from which a Finding is made. Message and severity come from the rule's code.

    `path`: the field at fault, such as "IndicesTensor.Sizes[2]". `expected`, `got`, `remedy`: what the rule requires, the
    actual value, and how to fix it. `level`: the lowest feature level that accepts the value, if the rule depends on levels.
    `source`: the document that states the rule, or None for that of the code.
    """

    path: str
    expected: str
    got: str
    remedy: str
    level: FeatureLevel | None = None
    source: str | None = None


class Rule(NamedTuple):
    """One rule: a code, and the function that checks descriptors or tensors.

    `code`: the code, such as "DML302"; `CODES` has its message, severity and source. `check`: a function that takes a
    DescriptorCase or a TensorCase and yields its faults. `needs`: codes of earlier rules. If one of them failed or was skipped,
    this rule is skipped. `alternatives`: fields that may have a wrong value and so cause the fault. The remedy suggests values
    for them. `about`: the optional field of a tensor that the rule checks. Tensors without this field are not checked.
    """

    code: str
    check: Callable[[Any], Iterable[Fault]]
    needs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    about: str = ""


_DEFAULTS = {name: field.default for name, field in BufferTensorDesc.model_fields.items()}


class TensorRules:
    """All rules of tensors.

    `of` selects those that a tensor must obey: rules about optional fields apply only if it has them.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._optional_fields = tuple(sorted({rule.about for rule in self._rules if rule.about}))
        self._cache: dict[tuple[bool, ...], tuple[Rule, ...]] = {}

    def of(self, tensor: BufferTensorDesc) -> tuple[Rule, ...]:
        """Return the rules that apply to one tensor, in order."""
        present = tuple([getattr(tensor, name) != _DEFAULTS[name] for name in self._optional_fields])
        rules = self._cache.get(present)
        if rules is None:
            fields = {"", *(name for name, is_present in zip(self._optional_fields, present, strict=True) if is_present)}
            rules = self._cache[present] = tuple(rule for rule in self._rules if rule.about in fields)
        return rules


def run(
    rules: Iterable[Rule], case: DescriptorCase[OperatorDesc] | TensorCase, failed: set[str]
) -> Iterator[tuple[Rule, Finding]]:
    """Check a case against `rules`, in order. Yield every finding together with its rule.

    `failed`: codes of the rules that have failed or were skipped. A rule that needs one of these codes is skipped. The function
    adds the code of each rule that it skips or that finds an ERROR.
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
