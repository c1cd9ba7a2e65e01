"""Compile a DirectML operator descriptor and run it on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.adapter import NUMPY, Adapter, Again
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.backends.footprints import (
    ArrayCall,
    signature_on,
)
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


def compile(  # noqa: A001 - the word users know for preparing an operator
    desc: OperatorDesc,
    device: str | None = None,
    level: str | FeatureLevel = "6_4",
    out_of_bounds: str | Fill | None = None,
) -> CompiledOperator:
    """Validate `desc` at a feature level and make it callable.

    device: None runs where the arrays of each call are. "cpu", "cuda", "cuda:N" or "reference" runs there, is prepared for packed
    arrays at once, and moves arrays from elsewhere. out_of_bounds: None is DirectML's clamping; else "clamp", "raise", "promise"
    or Fill(value).

    Raises DescriptorError (a ValueError that lists every error), ValueError for an unknown device, level or policy, and
    DeviceError when the device cannot be used.

    >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
    >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
    >>> dg.compile(desc)(np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]))  # 9 is clamped to 3
    array([[13, 10, 13, 13]])
    """
    validate(desc, level=level).raise_for_errors()
    return CompiledOperator(desc, None if device is None else Device.parse(device), out_of_bounds)


class CompiledOperator:
    """A valid descriptor, ready to run. `compile` makes one.

    Call it with the operator's input arrays in the descriptor's order. An array of the described Sizes, with or without leading
    1s of them, is read with its own strides. A one-dimensional contiguous array of at least TotalTensorSizeInBytes bytes, of the
    described type or uint8, is a buffer and read through the described strides; so is every one-dimensional array in the place of
    a tensor of more dimensions that states Strides.

    It can be pickled and copied: it is its descriptor, its device and its policy.
    """

    def __init__(self, desc: OperatorDesc, device: Device | None, out_of_bounds: str | Fill | None) -> None:
        self.desc = desc
        self._made_of = desc, device, out_of_bounds
        self._problem = DescriptorProblem(desc)
        self._output = self._problem.output
        self._tensors = DescribedTensors(self._problem, device, policy_of(self._problem, out_of_bounds))
        # By signatures, never by identity: arrays change in place, and Python reuses ids.
        self._prepared = lru_cache(CALLS_KEPT)(self._tensors.prepared)
        self._addressed = lru_cache(CALLS_KEPT)(self._tensors.addressed)
        self._new_output = lru_cache(CALLS_KEPT)(self._tensors.new_output)
        self._known = lru_cache(CALLS_KEPT)(lambda *_: list[Again]())
        self._last: Outcome | None = None
        # What the last call was made by: not of buffers.
        self._array_call: ArrayCall | None = None
        self._adapter: Adapter = NUMPY

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledOperator, self._made_of  # calls and programs are prepared again

    def __repr__(self) -> str:
        return f"<CompiledOperator {self._shown(self._tensors.device)}>"

    @cached_property
    def plan(self) -> IndexPlan:
        """The plan over the described layouts, as lowered."""
        return self.lower([tensor.layout() for tensor in self._tensors.tensors.values()])

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays and return the output, the same kind of array as the first input, shape OutputTensor.Sizes.

        inputs: one array per input tensor. out: written instead of a new array and returned; nothing is allocated then.
        stream: on a GPU, the stream to run on (of CuPy or torch, an object with `__cuda_stream__`, or an address); left out,
        PyTorch's current one if the first input is a tensor, else CuPy's. Streams of other libraries that wrote an array, or use
        it next, are ordered with it; CuPy's is where `stream` is left out.

        Raises TypeError for a wrong type, kind or mixture of devices, ValueError for a wrong shape or an overlapping `out`;
        IndexError for a bad index under "raise" on the CPU (on a GPU, ask with `raise_if_bad`).

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> gather, out = dg.compile(desc, out_of_bounds=dg.Fill(-1)), np.empty((1, 4), np.int64)
        >>> gather(np.array([[10, 11, 12, 13]]), np.array([[3, 0, -1, 9]]), out=out) is out
        True
        >>> out
        array([[13, 10, 13, -1]])
        """
        again = self._array_call
        if again is not None and stream is None:
            target = out
            if out is None and inputs:
                kind = type(inputs[0])
                if kind is np.ndarray:
                    target = np.empty(self._output.shape, self._output.dtype)
                elif arrays.signed_by(kind) is self._adapter:
                    target = self._adapter.empty(inputs[0], self._output.shape)
            if again(*inputs, target):
                self._last = None
                return target
        found = arrays.view_signatures((*inputs, out))
        new = out is None and stream is None
        if new:
            found[-1] = self._new_output(*found[:-1])
        call = self._prepared(*found)
        if call is None:
            return self._run_elsewhere(inputs, out, stream)
        if new:
            out = arrays.allocate(call.device.memory, self._output.shape, self._output.dtype)
        self._run(call, inputs, out, stream)
        self._remember(call, (*inputs, out))
        return out

    def bind(self, *inputs: Any, out: Any) -> BoundOperator:
        """The operator with its arrays fixed: the cheapest way to run it again, and what a CUDA graph captures. What is set of
        the arrays afterwards, such as `out.setflags(write=False)`, is not looked at again.

        Raises TypeError and ValueError as a call does.

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(1, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> data, indices, out = np.array([[10, 11, 12, 13]]), np.array([[3, 0, 1, 2]]), np.empty((1, 4), np.int64)
        >>> run = dg.compile(desc).bind(data, indices, out=out)
        >>> data += 10
        >>> run()
        >>> out
        array([[23, 20, 21, 22]])
        """
        given, device = (*inputs, out), self._tensors.device
        with arrays.in_order(given):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
        if device is not None and any(found != device.memory for _, found in adopted):
            raise TypeError(f"bind takes arrays that lie on {device.memory}; move them there first")
        views = [array for array, _ in adopted]
        call = self._prepared(*(signature_on(found, array) for array, found in adopted))
        assert call is not None
        run = call.bind(views[:-1], views[-1])
        lent = call.device.on_gpu and any(array is not view for array, view in zip(given, views, strict=True))
        return BoundOperator(self, arrays.again(given, views, call.device, run) if lent else run, call.device)

    def run_buffers(self, *inputs: Any, out: Any, stream: Any = None) -> None:
        """Run on one-dimensional byte buffers (uint8), all read and written through the described strides.

        Raises TypeError for buffers on another device than the operator was compiled for, ValueError for one that is too short
        or overlaps; IndexError as a call does.
        """
        with arrays.in_order((*inputs, out), stream, self._tensors.device):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
            call = self._prepared(*(signature_on(device, array) for array, device in adopted), buffers=True)
            assert call is not None
            *sources, target = [array for array, _ in adopted]
            self._run(call, sources, target, stream)

    def prepare(self, device: str | None = None, *, layouts: Sequence[Sequence[Any]] | None = None) -> None:
        """Plan and compile what calls will need, so that the first call only launches.

        device: None is the one that the operator was compiled for, else "cuda". layouts: an item for each kind of call, with each
        input, and `out` if the call has one, as an array like it, as (shape, dtype) of a packed one, or as (shape, dtype, strides
        in bytes). On a GPU, stated arrays lie at multiples of 16 bytes, and arrays like a given one as far behind one as it does.
        Left out: packed arrays of the described Sizes, and on a GPU also buffers and addresses.

        Raises TypeError and ValueError as a call with such arrays does, with the item's number; ValueError for a device where no
        call runs, DeviceError for no usable GPU.

        >>> row = dg.BufferTensorDesc(data_type="INT64", sizes=(2, 4))
        >>> desc = dg.GatherElementsOperatorDesc(input_tensor=row, indices_tensor=row, output_tensor=row, axis=1)
        >>> transposed = ((2, 4), "int64", (8, 16))
        >>> dg.compile(desc).prepare("cpu", layouts=[[transposed, ((2, 4), "int64")]])
        """
        target = self._tensors.target(device)
        if self._tensors.device is None and target != target.memory:
            raise ValueError(f"device is {target}, where no arrays lie: compile(…, device='{target}') to run calls there")
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
        """Run on device addresses (inputs, then output) of whole buffers of TotalTensorSizeInBytes.

        device: "cuda" or "cuda:N", unless the operator was compiled for a device. Only the addresses can be checked: TypeError
        for another number of them; ValueError for one that is not a multiple of 16 bytes, for an output that overlaps an input,
        and for a device that is no GPU.
        """
        tensors = self._tensors.tensors
        if len(pointers) != len(tensors):
            raise TypeError(f"launch takes {len(tensors)} addresses ({', '.join(tensors)}), got {len(pointers)}")
        data, *others, out = pointers
        indices = others[0] if others else 0
        if (data | indices | out) % 16:
            name, pointer = next(each for each in zip(tensors, pointers, strict=True) if each[1] % 16)
            raise ValueError(f"{name} is at address {pointer:#x}, which is not a multiple of 16 bytes")
        call = self._addressed(device)
        if (stream is None or type(stream) is int) and not call.reports and call.run_at(data, indices, out, stream):
            self._last = None
        else:
            self._last = call.launch(pointers[:-1], out, stream)

    def raise_if_bad(self) -> None:
        """Under "raise": IndexError for the first bad index (in memory order) of the last call. Waits for a GPU's stream."""
        last = self._last
        if last is not None:
            self._raise(last)

    def explain(self) -> Explanation:
        """Plan, canonical plan, what each device would run, bytes moved, lowest feature level."""
        from dmlgather.diagram.explanation import explain

        return explain(self.desc, self.plan)

    def lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """The plan over other layouts: one per tensor in binding order, inputs first."""
        return self._tensors.lower(layouts)

    def _run(self, call: PreparedCall, inputs: Sequence[Any], out: Any, stream: Any) -> None:
        self._last = outcome = call.run(inputs, out, stream)
        if outcome is not None and not call.device.on_gpu:
            self._raise(outcome)

    def _run_elsewhere(self, inputs: Sequence[Any], out: Any, stream: Any) -> Any:
        """A call whose arrays have to be adopted, moved to the operator's device or allocated before it runs: unless they are
        like those of a call before, all of one library.
        """
        device, given = self._tensors.device, (*inputs, out)
        key = [*map(arrays.signature, given)]
        has_key = stream is None and None not in key[:-1] and (out is None or key[-1] is not None)
        kept = self._known(*key) if has_key else []
        if kept and (result := kept[0](given)) is not None:
            self._last = None
            return result
        self._tensors.check_count(len(inputs))
        with arrays.in_order(given, stream, device):
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
        if has_key and in_place and not call.reports and [*map(arrays.signature, given)] == key:
            kept[:] = repeats(call, given)
            self._remember(call, (*inputs, result))
        return result

    def _remember(self, call: PreparedCall, given: Sequence[Any]) -> None:
        """The next call is tried on arrays like these, inputs first, all of one library."""
        if call.reports:  # each run leaves an outcome
            self._array_call = None
        else:
            self._array_call, self._adapter = call.array_call(given), arrays.adapter_of(given[0])

    def _raise(self, outcome: Outcome) -> None:
        outcome.raise_for_bad_index("IndicesTensor", self._problem.lookup_axes)

    def _shown(self, device: Device | None) -> str:
        """Return the descriptor in short, the device (None: of the arrays), and the policy where there are indices."""
        where = "where the arrays are" if device is None else f"on {device}"
        choice = self._made_of[2]
        policy = f"Fill({choice.value!r})" if isinstance(choice, Fill) else choice or "clamp"
        shown = f", out of bounds: {policy}" if "indices_tensor" in self._tensors.tensors else ""
        return f"{self.desc}; {where}{shown}"


class BoundOperator:
    """A compiled operator with its arrays, which it keeps alive. `CompiledOperator.bind` makes one."""

    def __init__(self, operator: CompiledOperator, run: BoundRun, device: Device) -> None:
        self._operator, self._run, self._device = operator, run, device
        self._on_gpu = device.on_gpu
        self._last: Outcome | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a bound operator holds the addresses of its arrays: pickle or copy the operator, and bind it again")

    def __repr__(self) -> str:
        return f"<BoundOperator {self._operator._shown(self._device)}>"

    def __call__(self, stream: Any = None) -> None:
        """Run into the bound output; on a GPU on `stream`, as a call, without a sync or an allocation.

        A CUDA graph that captured this uses the binding's memory: keep the binding as long as the graph.
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
        """As `CompiledOperator.raise_if_bad`, for this binding's last run. After a CUDA graph that ran on another stream than it
        was captured on, wait for that stream first.
        """
        last = self._last
        if last is not None:
            self._operator._raise(last)
