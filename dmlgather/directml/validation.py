"""What is asked of descriptors and operators: whether all rules hold, the lowest level, the support table, the plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from pydantic import ValidationError

from dmlgather.directml.descriptors import OperatorDesc
from dmlgather.directml.fields import wire_name
from dmlgather.directml.findings import Finding, Report, Severity
from dmlgather.directml.operators import operator_named
from dmlgather.directml.rules.rule import DescriptorCase, Rule, TensorRules, run
from dmlgather.directml.rules.shared import OPERATOR_LEVEL, SHARED_RULES, TENSOR_LEVEL_RULES
from dmlgather.directml.rules.tensors import TENSOR_RULES
from dmlgather.directml.types import AS_IN_FILES, FeatureLevel
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.record import plain
from dmlgather.wording import alternatives, braces

_OF_TENSORS = TensorRules((*TENSOR_RULES, *TENSOR_LEVEL_RULES))
_OF_LEVELS = TensorRules(TENSOR_LEVEL_RULES)


def validate(desc: OperatorDesc, level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> Report:
    """Check `desc` against the rules at a feature level and report the violations; an invalid descriptor raises nothing.

    A rule that depends on a broken one is skipped: sizes are not compared where Axis is out of range, for example. What it would
    find is reported once the first error is mended.

    ValueError for an unknown level, TypeError for anything but an operator descriptor.

    >>> data, output = ({"data_type": "FLOAT32", "sizes": [rows, 3]} for rows in (5, 4))
    >>> indices = {"data_type": "UINT32", "sizes": [1, 2]}
    >>> desc = dg.GatherOperatorDesc(
    ...     input_tensor=data, indices_tensor=indices, output_tensor=output, axis=0, index_dimensions=1
    ... )
    >>> report = dg.validate(desc)
    >>> report.ok, [(finding.code, finding.path) for finding in report.findings]
    (False, [('DML302', 'OutputTensor.Sizes[0]')])
    """
    _check_type(desc)
    case = DescriptorCase(desc, FeatureLevel.parse(level))
    return Report(subject=desc.operator.type, level=case.level, findings=tuple(_findings(case)))


def minimum_level(desc: OperatorDesc) -> FeatureLevel | None:
    """The lowest feature level at which `desc` has no ERROR; None when no level accepts it.

    TypeError for anything but an operator descriptor.

    >>> tensor = {"data_type": "INT8", "sizes": [1, 1, 2, 3]}
    >>> desc = dg.GatherElementsOperatorDesc(
    ...     input_tensor=tensor, indices_tensor={**tensor, "data_type": "UINT32"}, output_tensor=tensor, axis=3
    ... )
    >>> str(dg.minimum_level(desc))
    '2_1'
    """
    if not validate(desc, max(FeatureLevel)).ok:
        return None
    # The newest level accepts it, and only these rules depend on the level.
    return next(level for level in FeatureLevel if not any(_tensor_and_level(DescriptorCase(desc, level), _OF_LEVELS, set())))


def _check_type(desc: object) -> None:
    if not isinstance(desc, OperatorDesc) or not hasattr(desc, "operator"):
        raise TypeError(
            f"expected an operator descriptor such as GatherOperatorDesc, got {type(desc).__name__}; "
            'parse_descriptor reads {"type": "DML_OPERATOR_…", "desc": {…}}'
        )


def _findings(case: DescriptorCase[OperatorDesc]) -> Iterator[Finding]:
    failed: set[str] = set()
    yield from _tensor_and_level(case, _OF_TENSORS, failed)
    of_tensors = frozenset(failed)
    found = list(run(_operator_rules(case), case, failed))
    errors = _errors(found)
    for rule, finding in found:
        values = _fixing_values(case, rule, of_tensors, errors - {rule.code})
        yield finding.model_copy(update={"remedy": f"{values}; or {finding.remedy}"}) if values else finding


def _tensor_and_level(case: DescriptorCase[OperatorDesc], rules: TensorRules, failed: set[str]) -> Iterator[Finding]:
    """The findings of the operator's level and of `rules` for each tensor. A rule that is skipped for one tensor still runs
    for the others.
    """
    for _, finding in run((OPERATOR_LEVEL,), case, failed):
        yield finding
    before = frozenset(failed)
    for tensor in case.tensors:
        here = set(before)
        for _, finding in run(rules.of(tensor.tensor), tensor, here):
            yield finding
        failed |= here


def _operator_rules(case: DescriptorCase[OperatorDesc]) -> Iterable[Rule]:
    """The rules between an operator's fields."""
    return chain(SHARED_RULES, case.desc.operator.rules)


def _errors(found: Iterable[tuple[Rule, Finding]]) -> set[str]:
    return {finding.code for _, finding in found if finding.severity is Severity.ERROR}


def _fixing_values(case: DescriptorCase[OperatorDesc], rule: Rule, of_tensors: frozenset[str], others: set[str]) -> str:
    """Values of single fields that fix a fault of `rule`: "IndexDimensions = 1 gives the stated output {3,2}".

    of_tensors: codes of the tensors' rules that failed. others: codes of the errors between fields beside the fault. Where no
    value gives the stated output, the values that remove the fault and cause no other are named, and that others remain.
    """
    output = case.desc.tensor(case.desc.operator.output)
    giving, removing = [], []
    for field in rule.alternatives:
        for value in range(output.rank + 1):
            other = DescriptorCase(case.desc.model_copy(update={field: value}), case.level)
            failed = set(of_tensors)
            if _errors(run(_operator_rules(other), other, failed)) <= others:
                removing.append(f"{wire_name(field)} = {value}")
                if failed == of_tensors:  # every rule was run, and none failed
                    giving.append(removing[-1])
    if giving:
        return f"{alternatives(giving)} gives the stated output {braces(output.sizes)}"
    return f"{alternatives(removing)} removes this error, but not the others" if removing else ""


def parse_descriptor(obj: Mapping[str, Any] | str | bytes) -> OperatorDesc:
    """Return the descriptor in {"type": "DML_OPERATOR_GATHER", "desc": {...}}, as DxDispatch writes it ("Desc" is accepted,
    too), or in {"type": "DML_OPERATOR_GATHER", "InputTensor": ...}, as `model_dump_json` writes it.

    obj: a dictionary, or JSON as text or bytes.

    ValueError for what is no JSON, an unknown operator, with the known names, and a missing key; pydantic.ValidationError (a
    ValueError) for a field that is missing, unknown, or of the wrong type.

    >>> tensor = {"DataType": "FLOAT16", "Sizes": [8]}
    >>> desc = dg.parse_descriptor({"type": "DML_OPERATOR_SLICE", "desc": {
    ...     "InputTensor": tensor, "OutputTensor": {**tensor, "Sizes": [3]}, "Offsets": [1], "Sizes": [3], "Strides": [2]}})
    >>> desc.output_tensor.sizes, desc.strides
    ((3,), (2,))
    """
    form = '{"type": "DML_OPERATOR_…", "desc": {…}}'
    if isinstance(obj, str | bytes | bytearray):
        try:
            obj = json.loads(obj)
        except ValueError as error:  # UnicodeDecodeError is one
            raise ValueError(f"expected {form} as JSON: {error}") from None
    if not isinstance(obj, Mapping):
        raise ValueError(f"expected {form}, got a value of type {type(obj).__name__}")
    keys = [key for key in ("desc", "Desc") if key in obj]
    if "type" not in obj or len(keys) > 1:
        raise ValueError(f"expected {form}, got the keys {list(obj)}")
    found = operator_named(obj["type"]).desc
    try:
        return found.model_validate(obj[keys[0]] if keys else obj, context=AS_IN_FILES)
    except ValidationError as error:
        raise plain(error, found) from None


def support(name: str) -> dict[str, Any]:
    """The support table of an operator ("GATHER" or "DML_OPERATOR_GATHER") as plain data, ready for JSON.

    Each level lists, per tensor, the data types and dimension counts accepted from that level on. ValueError for an unknown
    name.

    >>> [row["level"] for row in dg.support("GATHER")["levels"]]
    ['1_0', '2_1', '3_0', '4_1']
    """
    operator = operator_named(name)
    levels = sorted({row.level for row in operator.table})
    return {
        "operator": operator.type,
        "value": operator.value,
        "introduced": str(operator.introduced),
        "levels": [
            {
                "level": str(level),
                "tensors": {
                    row.tensor: {
                        "data_types": [data_type.name for data_type in row.data_types],
                        "dimension_counts": list(row.dimension_counts),
                        "source": row.source,
                    }
                    for row in operator.table
                    if row.level == level
                },
            }
            for level in levels
        ],
    }


def lower(
    desc: OperatorDesc,
    layouts: Mapping[str, Layout] | None = None,
    out_of_bounds: OutOfBounds = OutOfBounds.CLAMP,
    fill: bytes = b"",
) -> IndexPlan:
    """The plan of a descriptor without ERROR findings.

    layouts: by field ("indices_tensor"), of the described sizes; a tensor that is left out has its described layout.
    out_of_bounds, fill: what an index out of range reads, CLAMP in DirectML; `fill` has one element's bytes, for FILL only.
    ValueError for a field that is no tensor of the operator and for a layout whose sizes are not the described ones.
    """
    operator = desc.operator
    given = dict(layouts or {})
    for field, layout in given.items():
        if field not in operator.tensors:
            raise ValueError(f"{operator.name} has no tensor {field!r}; its tensors are {list(operator.tensors)}")
        if layout.sizes != desc.tensor(field).sizes:
            sizes = desc.tensor(field).sizes
            raise ValueError(f"the layout of {wire_name(field)} has sizes {layout.sizes}, the descriptor has {sizes}")
    complete = {field: given.get(field) or desc.tensor(field).layout() for field in operator.tensors}
    return replace(operator.lower(desc, complete), out_of_bounds=out_of_bounds, fill=fill)
