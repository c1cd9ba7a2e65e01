"""Compiled operators: DirectML operator descriptors that run on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.adapter import NUMPY, Adapter, Repeater
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.backends.footprints import FastPath, signature_on
from dmlgather.backends.outcomes import Outcome
from dmlgather.backends.prepared_call import CALLS_KEPT, BoundRun, PreparedCall
from dmlgather.calls.arguments import CallOutput, Fill, policy_of, taken
from dmlgather.calls.described_tensors import DescribedTensors, check_devices
from dmlgather.calls.prepared import repeats
from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.directml import FeatureLevel, OperatorDesc, validate
from dmlgather.plan import IndexPlan, Layout

if TYPE_CHECKING:
    from dmlgather.diagram.explanation import Explanation


def compile(  # noqa: A001 - users know this word for preparing an operator
    desc: OperatorDesc,
    device: str | None = None,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
) -> CompiledOperator:
    """Validate `desc` at a feature level, and return an operator that runs it.

    `device`: None runs each call on the device of its arrays. With "cpu", "cuda", "cuda:N" or "reference", the operator runs on
    this device, is prepared for packed arrays now, and moves arrays from other devices.
    `out_of_bounds`: what an index out of range does. None and "clamp" read the nearest element, as DirectML does. "raise"
    raises an IndexError. Fill(value) writes the value. With "promise", the caller promises that no index is out of range.

    Raises DescriptorError (a ValueError that lists every error), ValueError for an unknown device, level or policy, and
    DeviceError if the device cannot be used.

    >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
    >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
    >>> dg.compile(desc)(np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]))  # 9 is clamped to 3
    array([[13, 10, 13, 13]])
    """
    validate(desc, level=level).raise_for_errors()
    return CompiledOperator(desc, None if device is None else Device.parse(device), out_of_bounds)


class CompiledOperator:
    """A valid descriptor that can run on arrays. `compile` makes it.

    Call it with the operator's input arrays in the descriptor's order. An array of the described Sizes, with or without their
    leading 1s, is read with its own strides. A one-dimensional contiguous array of the described type or uint8 is a buffer,
    which is read through the described strides. It needs at least TotalTensorSizeInBytes bytes; bytes after these are ignored.
    Any one-dimensional array is a buffer if the tensor has several dimensions and states Strides.

    It can be pickled and copied: its state is descriptor, device and policy.
    """

    def __init__(self, desc: OperatorDesc, device: Device | None, out_of_bounds: str | Fill | None) -> None:
        self.desc = desc
        self._state = desc, device, out_of_bounds
        self._problem = DescriptorProblem(desc)
        self._output = self._problem.output
        self._tensors = DescribedTensors(self._problem, device, policy_of(self._problem, out_of_bounds))
        # The keys are signatures, never ids, because arrays can be changed in place, and Python reuses ids.
        self._prepared = lru_cache(CALLS_KEPT)(self._tensors.prepared)
        self._addressed = lru_cache(CALLS_KEPT)(self._tensors.addressed)
        self._new_output = lru_cache(CALLS_KEPT)(self._tensors.new_output)
        self._repeaters = lru_cache(CALLS_KEPT)(lambda *_: list[Repeater]())
        self._last: Outcome | None = None
        self._fast_path: FastPath | None = None
        """Fast path of the last call, or None. The next call tries it first."""
        self._adapter: Adapter = NUMPY

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledOperator, self._state  # the copy prepares its own calls and programs

    def __repr__(self) -> str:
        return f"<CompiledOperator {self._shown(self._tensors.device)}>"

    @cached_property
    def plan(self) -> IndexPlan:
        """The IndexPlan for buffers with the described layouts. It is not canonical yet."""
        return self.lower([tensor.layout() for tensor in self._tensors.tensors.values()])

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays and return the output: an array of the first input's library, of shape OutputTensor.Sizes.

        `inputs`: one array per input tensor.
        `out`: an array to write and return instead of a new one. The call then allocates nothing.
        `stream`: on a GPU, the stream to run on: a stream of CuPy or torch, an object with `__cuda_stream__`, or an address.

        Without `stream`, the call runs on PyTorch's current stream if the first input is a tensor, else on CuPy's. The call
        waits for earlier work of other libraries on the arrays, and later work of these libraries waits for the call. Without
        `stream`, the call is also ordered with CuPy's current stream.

        Raises TypeError for a wrong data type or type of array, and for arrays on several devices; ValueError for a wrong shape
        or an overlapping `out`; and IndexError for a bad index under "raise" on the CPU (on a GPU, call `raise_if_bad`).

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> gather, out = dg.compile(desc, out_of_bounds=dg.Fill(-1)), np.empty((1, 4), np.int64)
        >>> gather(np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]), out=out) is out
        True
        >>> out
        array([[13, 10, 13, -1]])
        """
        fast_path = self._fast_path
        if fast_path is not None and stream is None:
            target = out
            if out is None and inputs:
                kind = type(inputs[0])
                if kind is np.ndarray:
                    target = np.empty(self._output.shape, self._output.dtype)
                elif arrays.signed_by(kind) is self._adapter:
                    target = self._adapter.empty(inputs[0], self._output.shape)
            if fast_path(*inputs, target):
                self._last = None
                return target
        signatures = arrays.view_signatures((*inputs, out))
        new = out is None and stream is None
        if new:
            signatures[-1] = self._new_output(*signatures[:-1])
        call = self._prepared(*signatures)
        if call is None:
            return self._run_elsewhere(inputs, out, stream)
        if new:
            out = arrays.allocate(call.device.memory, self._output.shape, self._output.dtype)
        self._run(call, inputs, out, stream)
        self._remember(call, (*inputs, out))
        return out

    def bind(self, *inputs: Any, out: Any) -> BoundOperator:
        """Return the operator bound to these arrays. Each call of the bound operator writes `out` again and returns None.

        A bound operator is the cheapest way to run an operator repeatedly, and the form that a CUDA graph can capture. Later
        changes of the arrays' flags, such as `out.setflags(write=False)`, are not checked.

        Raises TypeError and ValueError like a call.

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> data, indices, out = np.array([[10, 11, 12, 13]]), np.array([[3, 0, 1, 2]]), np.empty((1, 4), np.int64)
        >>> run = dg.compile(desc).bind(data, indices, out=out)
        >>> data += 10
        >>> run()
        >>> out
        array([[23, 20, 21, 22]])
        """
        bound, device = (*inputs, out), self._tensors.device
        with arrays.in_order(bound):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
        if device is not None and any(home != device.memory for _, home in adopted):
            raise TypeError(f"bind takes arrays that lie on {device.memory}; move them there first")
        views = [array for array, _ in adopted]
        call = self._prepared(*(signature_on(home, array) for array, home in adopted))
        assert call is not None
        run = call.bind(views[:-1], views[-1])
        foreign = call.device.on_gpu and any(array is not view for array, view in zip(bound, views, strict=True))
        return BoundOperator(self, arrays.ordered_run(bound, views, call.device, run) if foreign else run, call.device)

    def run_buffers(self, *inputs: Any, out: Any, stream: Any = None) -> None:
        """Run on one-dimensional byte buffers (uint8), which are read and written through the described strides.

        Raises TypeError if a buffer is not on the operator's device, ValueError if a buffer is too short or `out` overlaps an
        input, and IndexError like a call.
        """
        with arrays.in_order((*inputs, out), stream, self._tensors.device):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
            call = self._prepared(*(signature_on(device, array) for array, device in adopted), buffers=True)
            assert call is not None
            *sources, target = [array for array, _ in adopted]
            self._run(call, sources, target, stream)

    def prepare(self, device: str | None = None, *, layouts: Sequence[Sequence[Any]] | None = None) -> None:
        """Plan and compile for later calls, so that the first call only launches.

        `device`: the device of the calls. None means the device that the operator was compiled for, or else "cuda".
        `layouts`: a list of calls to prepare. Each call is a sequence with one item per input, and one more item if the call
        passes `out`. An item is an example array, (shape, dtype) for a packed array, or (shape, dtype, strides in bytes). On a
        GPU, later arrays must have the alignment of the example array, or 16 bytes if there is none.

        Without `layouts`, calls are prepared for packed arrays of the described Sizes, and on a GPU also for buffers and
        addresses.

        Raises TypeError and ValueError like a call with these arrays. The message says which item of `layouts` is wrong.
        Raises ValueError if no call can run on the device, and DeviceError if there is no usable GPU.

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(2, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> transposed = ((2, 4), "int64", (8, 16))
        >>> dg.compile(desc).prepare("cpu", layouts=[[transposed, ((2, 4), "int64")]])
        """
        target = self._tensors.target(device)
        if self._tensors.device is None and target != target.memory:
            raise ValueError(f"device is {target}, but no arrays lie there: compile(…, device='{target}') to run calls there")
        for number, layout in enumerate([(None,) * len(self._tensors.inputs)] if layouts is None else layouts):
            try:
                self._prepared(*self._tensors.stated(target, layout))
            except (TypeError, ValueError) as error:
                if layouts is None:
                    raise
                raise type(error)(f"layouts[{number}]: {error}") from None
        if layouts is None and target.on_gpu:
            self._addressed(str(target))

    def launch(self, *pointers: int, stream: Any = None, device: str | None = None) -> None:
        """Run on buffers at these GPU addresses: the inputs, then the output.

        Each buffer has the TotalTensorSizeInBytes of its tensor. `device`: "cuda" or "cuda:N"; None for the device that the
        operator was compiled for.

        Only the addresses are checked. Raise TypeError for a wrong number of addresses. Raise ValueError for an address that is
        not a multiple of 16 bytes, for an output that overlaps an input, and for a device that is no GPU.
        """
        tensors = self._tensors.tensors
        if len(pointers) != len(tensors):
            raise TypeError(f"launch takes {len(tensors)} addresses ({', '.join(tensors)}), got {len(pointers)}")
        data, *others, out = pointers
        indices = others[0] if others else 0
        if (data | indices | out) % 16:
            name, pointer = next(entry for entry in zip(tensors, pointers, strict=True) if entry[1] % 16)
            raise ValueError(f"{name} is at address {pointer:#x}, which is not a multiple of 16 bytes")
        call = self._addressed(device)
        if (stream is None or type(stream) is int) and not call.reports and call.run_at(data, indices, out, stream):
            self._last = None
        else:
            self._last = call.launch(pointers[:-1], out, stream)

    def raise_if_bad(self) -> None:
        """Raise IndexError if the last call under "raise" met a bad index. On a GPU, wait for the call.

        The message names the first bad index in memory order.
        """
        last = self._last
        if last is not None:
            self._raise(last)

    def explain(self) -> Explanation:
        """Return a report that explains how the operator runs.

        The report has the plan, the canonical plan, the CPU loop or CUDA kernels of each device, the bytes moved, and the
        lowest feature level.
        """
        from dmlgather.diagram.explanation import explain

        return explain(self.desc, self.plan)

    def lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """Return the IndexPlan for other layouts of the tensors: the inputs in the descriptor's order, then the output."""
        return self._tensors.lower(layouts)

    def _run(self, call: PreparedCall, inputs: Sequence[Any], out: Any, stream: Any) -> None:
        self._last = outcome = call.run(inputs, out, stream)
        if outcome is not None and not call.device.on_gpu:
            self._raise(outcome)

    def _run_elsewhere(self, inputs: Sequence[Any], out: Any, stream: Any) -> Any:
        """Run a call with `stream` and without `out`, or with other arrays than NumPy's or CuPy's on the operator's device.

        Repeats an earlier call with equal signatures if there is one. Otherwise converts the arrays, and moves them if
        necessary.
        """
        device, args = self._tensors.device, (*inputs, out)
        key = [*map(arrays.signature, args)]
        has_key = stream is None and None not in key[:-1] and (out is None or key[-1] is not None)
        repeaters = self._repeaters(*key) if has_key else []
        if repeaters and (result := repeaters[0](args)) is not None:
            self._last = None
            return result
        self._tensors.check_count(len(inputs))
        with arrays.in_order(args, stream, device):
            items = [taken(name, array, device) for name, array in zip(self._tensors.inputs, inputs, strict=True)]
            if device is None:
                check_devices([item.home for item in items])
            target = CallOutput(items[0], self._output, out)
            if device is None:
                check_devices([items[0].home, target.home])
            call = self._prepared(*(item.signature for item in items), target.signature)
            assert call is not None
            self._run(call, [item.array for item in items], target.array, stream)
            result = target.returned()
        in_place = all(home == call.device.memory for home in (*(item.home for item in items), target.home))
        if has_key and in_place and not call.reports and [*map(arrays.signature, args)] == key:
            repeaters[:] = repeats(call, args)
            self._remember(call, (*inputs, result))
        return result

    def _remember(self, call: PreparedCall, args: Sequence[Any]) -> None:
        if call.reports:  # a fast path cannot return the outcome
            self._fast_path = None
        else:
            self._fast_path, self._adapter = call.fast_path(args), arrays.adapter_of(args[0])

    def _raise(self, outcome: Outcome) -> None:
        outcome.raise_for_bad_index("IndicesTensor", self._problem.lookup_axes)

    def _shown(self, device: Device | None) -> str:
        where = "where the arrays are" if device is None else f"on {device}"
        choice = self._state[2]
        policy = f"Fill({choice.value!r})" if isinstance(choice, Fill) else choice or "clamp"
        shown = f", out of bounds: {policy}" if "indices_tensor" in self._tensors.tensors else ""
        return f"{self.desc}; {where}{shown}"


class BoundOperator:
    """A compiled operator with fixed arrays. `CompiledOperator.bind` makes it. It keeps the arrays alive."""

    def __init__(self, operator: CompiledOperator, run: BoundRun, device: Device) -> None:
        self._operator, self._run, self._device = operator, run, device
        self._on_gpu = device.on_gpu
        self._last: Outcome | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a bound operator holds the addresses of its arrays: pickle or copy the operator, and bind it again")

    def __repr__(self) -> str:
        return f"<BoundOperator {self._operator._shown(self._device)}>"

    def __call__(self, stream: Any = None) -> None:
        """Run the operator on the bound arrays. On a GPU, launch on `stream` without waiting or allocating.

        `stream`: as in a call of the operator. A CUDA graph that has captured this call uses memory of the bound operator, so
        keep the bound operator as long as the graph.
        """
        if self._on_gpu:
            self._last = self._run(stream)
            return
        if stream is not None:
            stream_pointer(stream, CPU)
        self._last = outcome = self._run()
        if outcome is not None:
            self.raise_if_bad()

    def raise_if_bad(self) -> None:
        """Raise IndexError if the last run under "raise" met a bad index. On a GPU, wait for the run.

        The message names the first bad index in memory order. If a CUDA graph has captured the run, first wait for the stream
        on which you launched the graph.
        """
        last = self._last
        if last is not None:
            self._operator._raise(last)
