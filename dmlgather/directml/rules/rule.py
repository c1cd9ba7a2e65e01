"""Rules, the descriptors and tensors that they check, and the function that runs them."""

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
    """A descriptor and a feature level: the input of the rules for operators."""

    __slots__ = ("desc", "level", "tensors")

    def __init__(self, desc: D_co, level: FeatureLevel) -> None:
        self.desc, self.level = desc, level
        fields, output = desc.operator.tensors, desc.operator.output
        self.tensors = tuple([TensorCase(desc, level, desc.tensor(name), wire_name(name), name == output) for name in fields])


class TensorCase(NamedTuple):
    """A tensor of a descriptor, and a feature level: the input of the rules for tensors."""

    desc: OperatorDesc
    level: FeatureLevel
    tensor: BufferTensorDesc
    name: str
    is_output: bool

    @property
    def operator(self) -> str:
        """Name in the support table, such as "GATHER"."""
        return self.desc.operator.name

    @property
    def table(self) -> tuple[Row, ...]:
        """Rows of the support table for the operator."""
        return rows_of(self.operator)

    @property
    def row(self) -> Row | None:
        """Row of the support table for the tensor, or None if the operator is newer than the level."""
        return row_at(self.operator, self.name, self.level)


class Fault(NamedTuple):
    """One violation of a rule, from which `run` makes a Finding.

    `source`: the document to cite, or None for the document that `CODES` names for the rule.
    """

    path: str
    expected: str
    got: str
    remedy: str
    level: FeatureLevel | None = None
    source: str | None = None


class Rule(NamedTuple):
    """A rule for operators or for tensors.

    `check`: a function that takes a DescriptorCase or a TensorCase and yields its faults.
    `needs`: the codes of earlier rules. If one of them failed or was skipped, this rule is skipped.
    `alternatives`: the fields for which the remedy suggests other values.
    `about`: the name of an optional field. The rule checks only tensors with this field.
    """

    code: str
    check: Callable[[Any], Iterable[Fault]]
    needs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    about: str = ""


_DEFAULTS = {name: field.default for name, field in BufferTensorDesc.model_fields.items()}


class TensorRules:
    """The rules for tensors. `of` returns the ones that apply to a tensor."""

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
    """Check a case against `rules`, in order. Yield every finding with its rule.

    A rule that needs a code in `failed` is skipped. The codes of rules that fail or are skipped are added to `failed`.
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
