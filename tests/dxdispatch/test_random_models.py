"""Models with a random change: whatever it is, checking gives an answer, and what it accepts can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from dmlgather.model_runner import Runner
from tests.dxdispatch.models import MODEL, REMOVED, changed, write

WORDS = [
    "table", "rows", "output", "gather", "FLOAT32", "UINT64", "INT8", "nan", "inf", "NONE", "OWNED_BY_DML", "BUFFER",
    "DML_OPERATOR_SLICE", "GATHER_ELEMENTS", "dispatch", "print", "writeFile", "hlsl", "x.npy", "/", "", "\0", "\u00e9",
]  # fmt: skip
KEYS = [
    "type", "desc", "Desc", "Type", "name", "elementOffset", "initialValues", "initialValuesDataType", "sizeInBytes",
    "initialValuesOffsetInBytes", "valueCount", "value", "valueStart", "valueDelta", "sourcePath", "bindings", "Strides", "Flags",
    "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment", "InputTensor", "executionFlags", "dimensions", "targetPath",
]  # fmt: skip
scalars = (
    st.sampled_from(WORDS)
    | st.sampled_from([None, True, False, 0, 1, -1, 2, 4, 16, 3.0, 0.5, 2**31, 2**32, 2**64, -(2**63), 1e300])
    | st.integers()
    | st.text(max_size=3)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3), max_leaves=5
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [path] * bool(path) + [place for step in steps for place in _places(value[step], (*path, step))]


PLACES = _places(MODEL)


@st.composite
def models(draw: st.DrawFn) -> Any:
    """The model with one to three values replaced, added or removed."""
    model = MODEL
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(PLACES))
        if draw(st.booleans()):
            place = (*place[:-1], draw(st.sampled_from(KEYS)))
        try:
            model = changed((place, draw(values | st.just(REMOVED))), start=model)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    return model


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(models())
def test_any_change_is_answered(tmp_path: Path, model: Any) -> None:
    found = check_file(write(tmp_path, model))
    assert all(problem.line is not None and str(problem) for problem in found.problems)
    assert all(finding.line is not None and str(finding) for finding in found.findings)
    if not found.ok:
        with pytest.raises(ValueError, match="has problems or errors"):
            Runner(found)
    elif found.kind == "model" and _small(found):
        list(Runner(found, "cpu", tmp_path / "out").run())


def _small(found: CheckedFile) -> bool:
    return sum(resource.size for resource in found.resources.values()) < 2**24


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_answered(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "any.json").write_bytes(content)
    assert check_file(tmp_path / "any.json").problems
