"""What a dialect's calls become in DirectML: descriptors, run on arrays as `to_directml` says; and reports."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from dmlgather.plan import IndexPlan, canonicalise
from tests.dialects.refusals import begins

LEVELS = [FeatureLevel.parse(level) for level in ("1_0", "2_0", "2_1", "3_0", "4_1", "5_0", "6_4")]
DEVICES = ("reference", "cpu")
_HELD = {
    **dict.fromkeys(("bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"), "UINT8"),
    "bfloat16": "UINT16",
    "complex64": "UINT64",
    "complex128": "UINT64",
}
"""The types that DirectML does not have: DirectML's type of the same bits, of which complex128 has two."""


def held(dtype: np.dtype[Any]) -> tuple[str, int]:
    """DirectML's type for a NumPy type's bits, and how many of it make an element."""
    return _HELD.get(dtype.name, dtype.name.upper()), 2 if dtype.name == "complex128" else 1


def listed(found: Any) -> tuple[dg.OperatorDesc, ...]:
    """The descriptors that `to_directml` returned, in the order in which they run."""
    assert not isinstance(found, dg.Report), str(found)
    return found if isinstance(found, tuple) else (found,)


def codes(found: Any) -> list[str]:
    """The codes of the report that `to_directml` returned."""
    assert isinstance(found, dg.Report), found
    return [finding.code for finding in found.findings]


def only(found: Any) -> dg.Finding:
    """The one finding of the report that `to_directml` returned."""
    assert isinstance(found, dg.Report), found
    assert not found.ok
    (finding,) = found.findings
    return finding


def shown(desc: Any) -> str:
    """What a descriptor states, by DirectML's names: "GATHER Axis 1: FLOAT32 [2, 3] strides [1, 2], … -> FLOAT32 [2, 2]"."""
    stated = desc.document()["desc"]
    *inputs, output = (_tensor(value) for name, value in stated.items() if name.endswith("Tensor"))
    values = ", ".join(f"{name} {value}" for name, value in stated.items() if not name.endswith("Tensor"))
    return f"{desc.operator.name} {values}: {', '.join(inputs)} -> {output}"


def _tensor(stated: Mapping[str, Any]) -> str:
    assert stated["Flags"] == "NONE"
    assert "TotalTensorSizeInBytes" not in stated
    return f"{stated['DataType']} {stated['Sizes']}" + (f" strides {stated['Strides']}" if "Strides" in stated else "")


def becomes(found: Any, *forms: str) -> None:
    """What `to_directml` returned are descriptors whose texts begin with these words, in which "..." stands for any others."""
    texts = list(map(shown, listed(found)))
    assert len(texts) == len(forms), texts
    assert all(map(begins, texts, forms)), texts


def facts(finding: dg.Finding) -> tuple[str, str, str, str, str | None]:
    """What a finding states, but for its remedy."""
    level = None if finding.level is None else str(finding.level)
    return finding.code, finding.path, finding.expected, finding.got, level


def composed(found: Any) -> IndexPlan:
    """The plan of the descriptors that `to_directml` returned, in canonical form."""
    first, *more = [
        each.operator.lower(each, {name: each.tensor(name).layout() for name in each.operator.tensors}) for each in listed(found)
    ]
    for later in more:
        first = dg.compose(later, first)
    return canonicalise(first)


def check(found: Any, level: FeatureLevel | str, expected: NDArray[Any], **bound: Any) -> tuple[dg.OperatorDesc, ...]:
    """The descriptors, which validate at `level`, and on every device give the bytes of that result. bound: as `run` takes it."""
    descs, level = listed(found), FeatureLevel.parse(level)
    for desc in descs:
        assert dg.validate(desc, level).ok
    for device in DEVICES:
        buffer = run(descs, **bound, level=level, device=device)
        assert len(buffer) - expected.nbytes in range(4)
        assert buffer[: expected.nbytes].tobytes() == expected.tobytes(), (device, descs)
    return descs


def run(
    descs: Sequence[dg.OperatorDesc],
    *,
    data: NDArray[Any],
    indices: NDArray[Any] | None,
    sizes: NDArray[np.int64],
    level: FeatureLevel,
    device: str,
) -> NDArray[np.uint8]:
    """The output buffer of the last descriptor; buffers hold noise wherever nothing is said.

    sizes: what is added to negative indices where the described type is unsigned; of a shape that broadcasts to the indices.
    """
    content = np.ascontiguousarray(data).tobytes()
    rng = np.random.default_rng(zlib.crc32(content))  # the same noise when the same call is repeated
    buffer = np.frombuffer(content, np.uint8)
    for desc in descs:
        inputs = [_padded(rng, buffer, desc.tensor("input_tensor").total_bytes)]
        if "indices_tensor" in desc.operator.inputs:
            assert desc is descs[-1]
            assert indices is not None
            tensor = desc.tensor("indices_tensor")
            values = _converted(indices, sizes, np.dtype(tensor.data_type.name.lower()))
            inputs.append(_padded(rng, np.frombuffer(values.tobytes(), np.uint8), tensor.total_bytes))
        buffer = rng.integers(0, 256, desc.tensor("output_tensor").total_bytes, np.uint8)
        dg.compile(desc, device, level).run_buffers(*inputs, out=buffer)
    return buffer


def _padded(rng: np.random.Generator, content: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    found = rng.integers(0, 256, max(size, content.size), np.uint8)
    found[: content.size] = content
    return found


def _converted(indices: NDArray[Any], sizes: NDArray[np.int64], kind: np.dtype[Any]) -> NDArray[Any]:
    """Indices of the described type; for an unsigned one, negative values moved into range first."""
    values = indices.astype(np.int64)
    if kind.kind == "u":
        values = np.where(values < 0, values + sizes, values)
    assert values.size == 0 or values.min() >= np.iinfo(kind).min
    return values.astype(kind)
