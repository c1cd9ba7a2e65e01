"""jax.lax.gather as a function on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmlgather.dialects.problem import TensorType
from dmlgather.eager import EagerFunction, Request
from dmlgather.lax.problems.calls import gather_call
from dmlgather.lax.problems.gather import LaxGather
from dmlgather.policy import Fill


@EagerFunction
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int] | int,
    *,
    unique_indices: bool = False,  # noqa: ARG001 - a promise that nothing here needs
    indices_are_sorted: bool = False,  # noqa: ARG001 - as above
    mode: Any = None,
    fill_value: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> Request:
    """A window of `operand` per index vector of `start_indices`.

    operand: shape [n…], of any type of JAX's. start_indices: any of the eight integer types, shape [i…, components].
    dimension_numbers: GatherDimensionNumbers, ours or JAX's. slice_sizes: the window's size in each dimension of operand, in
    elements; one integer where operand has one dimension. unique_indices, indices_are_sorted: promises, taken and not relied
    on. mode: "clip" moves a window inside, "fill" and "drop" write `fill_value` to all of it, "promise_in_bounds" and None say
    that there is none outside and are executed as "clip"; a member of JAX's GatherScatterMode is taken as well. fill_value: one
    number, cast as NumPy casts; None for NaN, the least signed integer, the greatest unsigned one, True. Indices are compared
    at their full width: 2^32 + 1 is out of bounds, where JAX's fill mode reads element 1. Negative ones never count from the
    end. Returns shape [i…] with the window's sizes at offset_dims, as the kind of array that operand is.

    out_of_bounds: None for the mode's own; else "clamp", "raise", "promise" or a Fill, in its place. device: None for where the
    arrays are; "cpu", "cuda", "cuda:N" or "reference" to run there, wherever they are.

    Raises TypeError for shapes that do not go together, in JAX's order, and for other types; ValueError for another mode and for
    indices that are no integers; IndexError for a bad index under "raise".
    """

    def state(data: TensorType, indices: TensorType) -> LaxGather:
        return gather_call(data, indices, dimension_numbers, slice_sizes, mode=mode, fill_value=fill_value)

    return Request(state, {"operand": operand, "start_indices": start_indices}, out_of_bounds, device)
