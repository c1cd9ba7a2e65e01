"""What OpenVINO itself does where its pages are silent, where it contradicts them, and where `Model.evaluate` is no judge."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from tests.dialects.outcomes import Array, Refusal, content
from tests.no_telemetry import TELEMETRY
from tests.openvino.calling import run
from tests.openvino.drafts import MASKS
from tests.openvino.judge import EVALUATED_DATA, EVALUATED_INDICES, NotCoveredError, judge
from tests.openvino.runtime import openvino
from tests.openvino.specification import INTEGERS, NAMES, Call, gather, whole_byte_types
from tests.openvino.strategies import good_call


def compiled(node: Any, parameters: list[Any], *arrays: Array) -> Array:
    """What the CPU plugin makes of a node."""
    found: Array = np.array(openvino.Core().compile_model(openvino.Model([node], parameters, "one_node"), "CPU")(arrays)[0])
    return found


def parameter(array: Array) -> Any:
    return openvino.op.Parameter(openvino.Type(array.dtype), openvino.PartialShape(list(array.shape)))


@pytest.mark.parametrize("version", [1, 7])
def test_openvino_contradicts_itself_on_negative_indices(version: int) -> None:
    """The pages and the CPU plugin give zero, as we do; `Model.evaluate` and constant folding count from the end."""
    data, indices = np.arange(1, 6, dtype=np.float32), np.array([0, -1, -5, -6], np.int32)
    call = gather(version, data, indices, 0)
    assert content(run(call)) == content(np.array([1, 0, 0, 0], np.float32))
    evaluated = judge(call)
    assert not isinstance(evaluated, Refusal)
    assert content(evaluated) == content(np.array([1, 5, 1, 0], np.float32))

    def node(*inputs: Any) -> Any:
        return getattr(openvino, f"opset{version}").gather(*inputs, openvino.op.Constant(np.array(0)))

    parameters = [parameter(data), parameter(indices)]
    assert content(compiled(node(*parameters), parameters, data, indices)) == content(run(call))
    constants = [openvino.op.Constant(array) for array in (data, indices)]  # which are folded before the plugin runs
    assert content(compiled(node(*constants), [])) == content(evaluated)


def test_evaluate_covers_the_types_that_it_is_asked_about() -> None:
    def covered(data: Any, indices: Any) -> bool:
        try:
            judge(gather(8, np.zeros(3, data), np.zeros(2, indices), 0))
        except NotCoveredError:
            return False
        return True

    assert {name for dtype, name in NAMES.items() if covered(dtype, "int32")} == set(EVALUATED_DATA)
    assert {NAMES[dtype] for dtype in INTEGERS if covered("float32", dtype)} == set(EVALUATED_INDICES)


def test_the_types_are_those_of_the_installed_openvino() -> None:
    assert set(NAMES.values()) == whole_byte_types()


@pytest.mark.parametrize("version", [5, 6, 8])
def test_evaluate_has_no_code_for_these_gathers(version: int) -> None:
    kinds = (openvino.Type.f32, openvino.Type.i64)
    parameters = [openvino.op.Parameter(kind, openvino.PartialShape([2, 2])) for kind in kinds]
    operations = getattr(openvino, f"opset{version}")
    node = operations.gather_elements(*parameters, axis=0) if version == 6 else operations.gather_nd(*parameters)
    model = openvino.Model([node], parameters, "one_gather")
    tensors = [openvino.Tensor(np.zeros((2, 2), kind)) for kind in (np.float32, np.int64)]
    output = openvino.Tensor(np.zeros(tuple(node.get_output_shape(0)), np.float32))
    with pytest.raises(RuntimeError, match="Evaluation failed"):
        model.evaluate([output], tensors)


def test_evaluate_and_the_cpu_plugin_disagree_on_a_masked_begin() -> None:
    data, masks = np.arange(5, dtype=np.float32), {"begin_mask": [1], "shrink_axis_mask": [1]}
    call = Call("StridedSlice", 1, (data,), {"begin": [2], "end": [3], **masks})
    bounds = [openvino.op.Constant(np.array([value])) for value in (2, 3, 1)]
    given = parameter(data)
    node = openvino.opset1.strided_slice(given, *bounds, [1], [0], [], [1], [])
    evaluated = judge(call)
    assert not isinstance(evaluated, Refusal)
    assert content(evaluated) == content(run(call)) == content(np.array(2, np.float32))
    assert compiled(node, [given], data) == 0


def test_masks_of_different_lengths_are_in_the_page_alone() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    masks: dict[str, Any] = {"begin_mask": [0, 1, 1], "end_mask": [1, 1, 1], "new_axis_mask": [0] * 5, "shrink_axis_mask": [0, 0]}
    found = dg.openvino.strided_slice(data, [1, 1, 123], [0, 0, 2], [1, 1, -1], **masks, ellipsis_mask=[0])
    assert found.tobytes() == data[1:, :, ::-1].tobytes()
    bounds = [openvino.op.Constant(np.array(values)) for values in ([1, 1, 123], [0, 0, 2], [1, 1, -1])]
    with pytest.raises(RuntimeError, match="masks of StridedSlice must have the same size"):
        openvino.opset1.strided_slice(parameter(data), *bounds, *masks.values(), [0])


def test_random_masks_meet_each_other() -> None:
    strided = [good_call(seed, "StridedSlice-1").more for seed in range(1000)]
    for one in MASKS:
        for other in MASKS:
            assert any(1 in more[one] and 1 in more[other] for more in strided), (one, other)


def test_openvino_came_without_its_telemetry() -> None:
    assert sys.modules[TELEMETRY] is None, "something imported openvino itself; import it from tests.openvino.runtime"
