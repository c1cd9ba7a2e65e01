"""Validation of descriptors, and their lowest feature level, support table and plan."""

from __future__ import annotations

import json
import re
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

_ALL_TENSOR_RULES = TensorRules((*TENSOR_RULES, *TENSOR_LEVEL_RULES))
_LEVEL_RULES = TensorRules(TENSOR_LEVEL_RULES)


def validate(desc: OperatorDesc, level: FeatureLevel | str = FeatureLevel.LEVEL_6_4) -> Report:
    """Check a descriptor against DirectML's rules at a feature level. Return a report with all violations.

    A rule is skipped if a rule that it depends on failed. For example, sizes are not compared if Axis is out of range. So the
    correction of an error may reveal another error.

    Raises ValueError for an unknown level, TypeError for anything but an operator descriptor.

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
    """Return the lowest feature level at which a descriptor has no ERROR. Return None if no level accepts it.

    Raises TypeError for anything but an operator descriptor.

    >>> tensor = {"data_type": "INT8", "sizes": [1, 1, 2, 3]}
    >>> desc = dg.GatherElementsOperatorDesc(
    ...     input_tensor=tensor, indices_tensor={**tensor, "data_type": "UINT32"}, output_tensor=tensor, axis=3
    ... )
    >>> str(dg.minimum_level(desc))
    '2_1'
    """
    if not validate(desc, max(FeatureLevel)).ok:
        return None
    # All rules passed at the newest level. Only `_LEVEL_RULES` can fail at an older level.
    return next(level for level in FeatureLevel if not any(_level_findings(DescriptorCase(desc, level), _LEVEL_RULES, set())))


def _check_type(desc: object) -> None:
    if not isinstance(desc, OperatorDesc) or not hasattr(desc, "operator"):
        raise TypeError(
            f"expected an operator descriptor such as GatherOperatorDesc, got {type(desc).__name__}; "
            'parse_descriptor reads {"type": "DML_OPERATOR_…", "desc": {…}}'
        )


def _findings(case: DescriptorCase[OperatorDesc]) -> Iterator[Finding]:
    failed: set[str] = set()
    yield from _level_findings(case, _ALL_TENSOR_RULES, failed)
    failed_tensor_rules = frozenset(failed)
    results = list(run(_operator_rules(case), case, failed))
    errors = _error_codes(results)
    for rule, finding in results:
        values = _fixing_values(case, rule, failed_tensor_rules, errors - {rule.code})
        yield finding.model_copy(update={"remedy": f"{values}; or {finding.remedy}"}) if values else finding


def _level_findings(case: DescriptorCase[OperatorDesc], rules: TensorRules, failed: set[str]) -> Iterator[Finding]:
    """Yield the findings about the operator's level, then the findings of `rules` for each tensor.

    The failed codes are added to `failed`. If a rule is skipped for one tensor, it still runs for the other tensors.
    """
    for _, finding in run((OPERATOR_LEVEL,), case, failed):
        yield finding
    failed_before = frozenset(failed)
    for tensor in case.tensors:
        failed_here = set(failed_before)
        for _, finding in run(rules.of(tensor.tensor), tensor, failed_here):
            yield finding
        failed |= failed_here


def _operator_rules(case: DescriptorCase[OperatorDesc]) -> Iterable[Rule]:
    return chain(SHARED_RULES, case.desc.operator.rules)


def _error_codes(results: Iterable[tuple[Rule, Finding]]) -> set[str]:
    return {finding.code for _, finding in results if finding.severity is Severity.ERROR}


def _fixing_values(
    case: DescriptorCase[OperatorDesc], rule: Rule, failed_tensor_rules: frozenset[str], other_errors: set[str]
) -> str:
    """Return advice to change one field so that a fault of `rule` disappears. Return an empty text if no value does this.

    Example: "IndexDimensions = 1 gives the stated output {3,2}". If no value makes the descriptor valid, the advice names
    values that remove this fault and cause no other.
    """
    output = case.desc.tensor(case.desc.operator.output)
    valid, partial = [], []
    for field in rule.alternatives:
        for value in range(output.rank + 1):
            changed = DescriptorCase(case.desc.model_copy(update={field: value}), case.level)
            failed = set(failed_tensor_rules)
            if _error_codes(run(_operator_rules(changed), changed, failed)) <= other_errors:
                partial.append(f"{wire_name(field)} = {value}")
                if failed == failed_tensor_rules:  # no rule of the operator failed or was skipped
                    valid.append(partial[-1])
    if valid:
        return f"{alternatives(valid)} gives the stated output {braces(output.sizes)}"
    return f"{alternatives(partial)} removes this error, but not the others" if partial else ""


def parse_descriptor(obj: Mapping[str, Any] | str | bytes) -> OperatorDesc:
    """Return the operator descriptor for a dictionary or a JSON text.

    `obj`: a dictionary, or JSON as text or bytes. Two forms are allowed: DxDispatch's form {"type":
    "DML_OPERATOR_GATHER", "desc": {...}} (or "Desc"), and the form of `model_dump_json`, {"type": "DML_OPERATOR_GATHER",
    "InputTensor": ...}.

    Raises ValueError for invalid JSON, an unknown operator or a missing key. Raises pydantic.ValidationError (a ValueError) for a
    field that is missing, unknown, or of the wrong type.

    >>> tensor = {"DataType": "FLOAT16", "Sizes": [8]}
    >>> desc = dg.parse_descriptor({"type": "DML_OPERATOR_SLICE", "desc": {
    ...     "InputTensor": tensor, "OutputTensor": {**tensor, "Sizes": [3]}, "Offsets": [1], "Sizes": [3], "Strides": [2]}})
    >>> desc.output_tensor.sizes, desc.strides
    ((3,), (2,))
    """
    form = '{"type": "DML_OPERATOR_…", "desc": {…}}'
    if isinstance(obj, str | bytes | bytearray):
        from dmlgather.directml.dxdispatch.jsonc import unique_keys  # only text needs it

        try:
            obj = json.loads(obj, object_pairs_hook=unique_keys)
        except ValueError as error:  # JSONDecodeError or UnicodeDecodeError
            if isinstance(obj, str) and not obj.lstrip().startswith(("{", "[")) and re.search(r"[/\\]|\.json\s*$", obj):
                raise ValueError(f"expected {form}, got the path {obj!r}: pass pathlib.Path(…).read_text()") from None
            raise ValueError(f"expected {form} as JSON: {error}") from None
    if not isinstance(obj, Mapping):
        raise ValueError(f"expected {form}, got a value of type {type(obj).__name__}")
    keys = [key for key in ("desc", "Desc") if key in obj]
    if "type" not in obj or len(keys) > 1:
        missing = "" if "type" in obj else ", without 'type'"
        raise ValueError(f"expected {form}, got the keys {list(obj)}{missing}")
    kind = operator_named(obj["type"]).desc
    try:
        return kind.model_validate(obj[keys[0]] if keys else obj, context=AS_IN_FILES)
    except ValidationError as error:
        raise plain(error, kind) from None


def support(name: str) -> dict[str, Any]:
    """Return the support table of an operator ("GATHER" or "DML_OPERATOR_GATHER") as data that JSON can represent.

    For each level and tensor, the table lists the data types and dimension counts that the operator accepts from this level on.
    Raises ValueError for an unknown name.

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
    """Return the plan of a descriptor, which must have no ERROR findings.

    `layouts`: layouts to use instead of the descriptor's own, by field name ("indices_tensor").
    `fill`: the bytes of the element that FILL writes.

    Raises ValueError if `layouts` names a field that is no tensor, or if a layout has other sizes than the descriptor.
    """
    operator = desc.operator
    all_layouts = {field: desc.tensor(field).layout() for field in operator.tensors}
    for field, layout in (layouts or {}).items():
        if field not in all_layouts:
            raise ValueError(f"{operator.name} has no tensor {field!r}; its tensors are {list(operator.tensors)}")
        if layout.sizes != (sizes := desc.tensor(field).sizes):
            raise ValueError(f"the layout of {wire_name(field)} has sizes {layout.sizes}, but the descriptor has {sizes}")
        all_layouts[field] = layout
    return replace(operator.lower(desc, all_layouts), out_of_bounds=out_of_bounds, fill=fill)
