"""Compile a DirectML operator descriptor and run it on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.backends.footprints import (
    WRITEABLE,
    ArrayCall,
    Footprint,
    Signature,
    buffer,
    device_of,
    logical,
    packed_signature,
    signature_on,
    signatures,
)
from dmlgather.backends.outcomes import Outcome
from dmlgather.backends.routes import ROUTES_KEPT, BoundRun, DeviceRoute, Executor, Route
from dmlgather.calls.arguments import CallOutput, Fill, policy_of, taken
from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.directml import DataType, FeatureLevel, OperatorDesc, validate
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.wording import braces, counted

if TYPE_CHECKING:
    from dmlgather.picture.explanation import Explanation


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
        self._routes = DescribedRoutes(self._problem, device, policy_of(self._problem, out_of_bounds))
        # Keyed by signatures, never by identity: arrays change in place, and Python reuses ids.
        self._route = lru_cache(ROUTES_KEPT)(self._routes.of_arrays)
        self._buffer_route = lru_cache(ROUTES_KEPT)(self._routes.of_buffers)
        self._address_route = lru_cache(ROUTES_KEPT)(self._routes.of_addresses)
        self._new = lru_cache(ROUTES_KEPT)(self._routes.new_output)
        self._last: Outcome | None = None
        self._array_call: ArrayCall | None = None  # of the route of the last call; not of buffers

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledOperator, self._made_of  # routes and programs are prepared again

    def __repr__(self) -> str:
        return f"<CompiledOperator {self._shown(self._routes.device)}>"

    @cached_property
    def plan(self) -> IndexPlan:
        """The plan over the described layouts, as lowered."""
        return self.lower([tensor.layout() for tensor in self._routes.tensors.values()])

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
            if out is None and inputs and type(inputs[0]) is np.ndarray:
                target = np.empty(self._output.shape, self._output.dtype)
            if again(*inputs, target):
                self._last = None
                return target
        found = signatures((*inputs, out))
        new = out is None and stream is None
        if new:
            found[-1] = self._new(*found[:-1])
        route = self._route(*found)
        if route is None:
            return self._run_elsewhere(inputs, out, stream)
        self._array_call = route.array_call
        if new:
            out = arrays.allocate(route.device.memory, self._output.shape, self._output.dtype)
        self._run(route, inputs, out, stream)
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
        given, device = (*inputs, out), self._routes.device
        with arrays.in_order(given):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
        if device is not None and any(found != device.memory for _, found in adopted):
            raise TypeError(f"bind takes arrays that lie on {device.memory}; move them there first")
        views = [array for array, _ in adopted]
        route = self._route(*(signature_on(found, array) for array, found in adopted))
        assert route is not None
        run = route.bind(views[:-1], views[-1])
        lent = route.device.on_gpu and any(array is not view for array, view in zip(given, views, strict=True))
        return BoundOperator(self, arrays.again(given, views, route.device, run) if lent else run, route.device)

    def run_buffers(self, *inputs: Any, out: Any, stream: Any = None) -> None:
        """Run on one-dimensional byte buffers (uint8), all read and written through the described strides.

        Raises TypeError for buffers on another device than the operator was compiled for, ValueError for one that is too short
        or overlaps; IndexError as a call does.
        """
        with arrays.in_order((*inputs, out), stream, self._routes.device):
            adopted = [*map(arrays.adopt, inputs), arrays.adopt_output(out)]
            route = self._buffer_route(*(signature_on(device, array) for array, device in adopted))
            *sources, target = [array for array, _ in adopted]
            self._run(route, sources, target, stream)

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
        target = self._routes.target(device)
        if self._routes.device is None and target != target.memory:
            raise ValueError(f"device is {target}, where no arrays lie: compile(…, device='{target}') to run calls there")
        for number, layout in enumerate([(None,) * len(self._routes.inputs)] if layouts is None else layouts):
            try:
                self._route(*self._routes.stated(target, layout))
            except (TypeError, ValueError) as error:
                if layouts is None:
                    raise
                raise type(error)(f"layouts[{number}]: {error}") from None
        if layouts is None and target.on_gpu:
            self._address_route(str(target))

    def launch(self, *pointers: int, stream: Any = None, device: str | None = None) -> None:
        """Run on device addresses (inputs, then output) of whole buffers of TotalTensorSizeInBytes.

        device: "cuda" or "cuda:N", unless the operator was compiled for a device. Only the addresses can be checked: TypeError
        for another number of them; ValueError for one that is not a multiple of 16 bytes, for an output that overlaps an input,
        and for a device that is no GPU.
        """
        tensors = self._routes.tensors
        if len(pointers) != len(tensors):
            raise TypeError(f"launch takes {len(tensors)} addresses ({', '.join(tensors)}), got {len(pointers)}")
        for pointer in pointers:
            if pointer % 16:
                name = list(tensors)[pointers.index(pointer)]
                raise ValueError(f"{name} is at address {pointer:#x}, which is not a multiple of 16 bytes")
        self._last = self._address_route(device).launch(pointers[:-1], pointers[-1], stream)

    def raise_if_bad(self) -> None:
        """Under "raise": IndexError for the first bad index (in memory order) of the last call. Waits for a GPU's stream."""
        last = self._last
        if last is not None:
            self._raise(last)

    def explain(self) -> Explanation:
        """Plan, canonical plan, what each device would run, bytes moved, lowest feature level."""
        from dmlgather.picture.explanation import explain

        return explain(self.desc, self.plan)

    def lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """The plan over other layouts: one per tensor in binding order, inputs first."""
        return self._routes.lower(layouts)

    def _run(self, route: Route, inputs: Sequence[Any], out: Any, stream: Any) -> None:
        self._last = outcome = route.run(inputs, out, stream)
        if outcome is not None and not route.device.on_gpu:
            self._raise(outcome)

    def _run_elsewhere(self, inputs: Sequence[Any], out: Any, stream: Any) -> Any:
        """A call whose arrays have to be adopted, moved to the operator's device or allocated before it runs."""
        device = self._routes.device
        self._routes.check_count(len(inputs))
        with arrays.in_order((*inputs, out), stream, device):
            given = [taken(name, array, device) for name, array in zip(self._routes.inputs, inputs, strict=True)]
            if device is None:
                check_devices([item.home for item in given])
            target = CallOutput(given[0], self._output, out)
            if device is None:
                check_devices([given[0].home, target.home])
            route = self._route(*(item.signature for item in given), target.signature)
            assert route is not None
            self._run(route, [item.array for item in given], target.array, stream)
            return target.returned()

    def _raise(self, outcome: Outcome) -> None:
        outcome.raise_for_bad_index("IndicesTensor", self._problem.lookup_axes)

    def _shown(self, device: Device | None) -> str:
        """Operator, types and sizes of its tensors, the device (None: of the arrays), and the policy where there are indices."""
        *inputs, output = [f"{tensor.data_type} {braces(tensor.sizes)}" for tensor in self._routes.tensors.values()]
        where = "where the arrays are" if device is None else f"on {device}"
        choice = self._made_of[2]
        policy = f"Fill({choice.value!r})" if isinstance(choice, Fill) else choice or "clamp"
        shown = f", out of bounds: {policy}" if len(inputs) > 1 else ""
        return f"{self._problem.name}: {', '.join(inputs)} -> {output}; {where}{shown}"


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


ALSO_ACCEPTED = {DataType.UINT8: ("bool",)}
"""NumPy types that stand for a DirectML type besides its own; DirectML's callers carry bool as UINT8."""


class DescribedRoutes:
    """The tensors of a valid descriptor, in binding order, and the routes for arrays in their place.

    It looks at signatures alone, never at arrays, so that callers may cache what it returns.
    """

    def __init__(self, problem: DescriptorProblem, device: Device | None, policy: tuple[OutOfBounds, bytes]) -> None:
        """device: where to run; None runs where the arrays are."""
        operator, self.device = problem.desc.operator, device
        self.tensors = {name: problem.desc.tensor(name) for name in operator.tensors}
        self.inputs = operator.inputs
        self._name, self._types = problem.name, dict(zip(self.tensors, problem.tensors, strict=True))
        self.lower = partial(problem.lower, out_of_bounds=policy[0], fill=policy[1])
        self._executor = Executor(self.lower)
        if device is not None:
            self._executor.prepare(device, [each.layout for each in problem.tensors])

    def new_output(self, *inputs: Signature | None) -> Signature | None:
        """The signature of a new output: a packed array where all inputs lie. None if one of them has to be moved first.

        Raises TypeError for another number of inputs, and for several devices.
        """
        self.check_count(len(inputs))
        devices = [device_of(found) for found in inputs if found is not None]
        if len(devices) < len(inputs) or (self.device is not None and set(devices) != {self.device.memory}):
            return None
        check_devices(devices)
        output = [*self._types.values()][-1]
        return packed_signature(output.dtype, output.shape, _where(devices[0]))

    def of_arrays(self, *signatures: Signature | None) -> Route | None:
        """The route for arrays (inputs, then output) whose shapes say whether they are logical tensors or buffers.

        None if one of them has to be moved to the device first. Raises TypeError for another number of inputs, a wrong type or
        several devices, ValueError for a wrong shape, and for arrays that cannot be read or written where they lie.
        """
        self.check_count(len(signatures) - 1)
        present = [found for found in signatures if found is not None]
        devices = [device_of(found) for found in present]
        if len(present) < len(signatures) or (self.device is not None and set(devices) != {self.device.memory}):
            return None
        shown = (*self.inputs, "out")
        footprints = [self._footprint(*each) for each in zip(self.tensors, shown, present, strict=True)]
        check_devices(devices)
        return self._executor.route(self.device or devices[0], footprints[:-1], footprints[-1], present)

    def of_buffers(self, *signatures: Signature) -> Route:
        """The route for buffers that are all read and written through the described strides."""
        self.check_count(len(signatures) - 1)
        footprints = [self._as_buffer(name, found) for name, found in zip(self.tensors, signatures, strict=True)]
        devices = [device_of(found) for found in signatures]
        if self.device is not None and set(devices) != {self.device.memory}:
            found = ", ".join(map(str, devices))
            raise TypeError(f"buffers lie on {found}; the operator was compiled for {self.device}: move them there")
        check_devices(devices)
        return self._executor.route(self.device or devices[0], footprints[:-1], footprints[-1], signatures)

    def target(self, device: str | None) -> Device:
        """The GPU, or the device compiled for, unless another is named. ValueError for one that was not compiled for."""
        target = Device.parse(device) if device is not None else self.device or Device("cuda")
        if self.device is not None and target != self.device:
            raise ValueError(f"device is {target}, but the operator was compiled for {self.device}")
        return target

    def of_addresses(self, device: str | None) -> DeviceRoute:
        """The route for buffers on a GPU of which only the addresses are known, multiples of 16 bytes each.

        device: as `CompiledOperator.launch` takes it. ValueError when that is no GPU or not the one compiled for.
        """
        target = self.target(device)
        if not target.on_gpu:
            raise ValueError(f"launch takes addresses on a GPU, and the device is {target}; call the operator with arrays there")
        footprints = [Footprint(name, self._types[name].dtype, tensor.layout()) for name, tensor in self.tensors.items()]
        route = self._executor.route(target, footprints[:-1], footprints[-1])
        assert isinstance(route, DeviceRoute)
        return route

    def stated(self, device: Device, layout: Sequence[Any]) -> list[Signature]:
        """The signatures of arrays on `device`, inputs then output, of one item of the `layouts` that `prepare` takes; None there
        is a packed array of the described Sizes. TypeError for another number of arrays, and for what states none.
        """
        given = [*layout]
        if len(given) == len(self.inputs):
            given.append(None)
        if len(given) != len(self.tensors):
            raise TypeError(
                f"{self._name} takes {counted(len(self.inputs), 'input array')} ({', '.join(self.inputs)}), and out "
                f"if the call has one, got {counted(len(given), 'array')}: state one for each"
            )
        where = _where(device.memory)
        return [
            packed_signature(each.dtype, each.shape, where) if item is None else _stated(name, item, where)
            for (name, each), item in zip(self._types.items(), given, strict=True)
        ]

    def check_count(self, count: int) -> None:
        """TypeError for another number of inputs than the operator has."""
        if count != len(self.inputs):
            raise TypeError(
                f"{self._name} takes the input arrays ({', '.join(self.inputs)}), {len(self.inputs)} in number, got {count}"
            )

    def _footprint(self, name: str, shown: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, where) = self.tensors[name], self._types[name].dtype, found
        if not tensor.is_logical(shape):
            return self._as_buffer(name, found)
        if given != dtype and str(given) not in ALSO_ACCEPTED.get(tensor.data_type, ()):
            raise TypeError(
                f"{shown}: expected {dtype} elements (the descriptor says {tensor.data_type.name}), got {given}; "
                f"convert with .astype or reinterpret with .view('{dtype}')"
            )
        return logical(shown, (given, tensor.sizes, (0,) * (tensor.rank - len(shape)) + strides, where))

    def _as_buffer(self, name: str, found: Signature) -> Footprint:
        tensor, dtype, (given, shape, strides, *_) = self.tensors[name], self._types[name].dtype, found
        bytes_ = given.itemsize * np.prod(shape, dtype=object)
        contiguous = len(shape) == 1 and (shape[0] < 2 or strides == (given.itemsize,))
        if not contiguous or given not in (dtype, np.dtype(np.uint8)) or bytes_ < tensor.total_bytes:
            ones = ", with or without leading 1s" if tensor.sizes[:1] == (1,) and tensor.strides is None else ""
            raise ValueError(
                f"{name}: expected shape {tensor.sizes}{ones}, or a one-dimensional contiguous buffer of {dtype} or uint8 with "
                f"at least {tensor.total_bytes} bytes (TotalTensorSizeInBytes), got {given} of shape {shape} with {bytes_} bytes"
            )
        return buffer(name, found, tensor.layout(), dtype)


def check_devices(devices: Sequence[Device]) -> None:
    """TypeError for more than one device."""
    if len(set(devices)) > 1:
        raise TypeError(
            f"arrays lie on different devices ({', '.join(map(str, devices))}); move them to one, or compile(…, device=…) to say "
            "where"
        )


def _stated(name: str, item: Any, where: int) -> Signature:
    """The signature of an array like `item`: another array, or (shape, dtype) or (shape, dtype, strides in bytes)."""
    if not isinstance(item, tuple):
        try:
            array, home = arrays.adopt(item)
        except TypeError:
            raise TypeError(
                f"{name} is {type(item).__name__}, expected an array, (shape, dtype) or (shape, dtype, strides in bytes)"
            ) from None
        dtype, shape, strides, place = signature_on(home, array)
        return dtype, shape, strides, where | place & 15 if home.on_gpu and where >= 0 else where
    try:
        shape, dtype = tuple(map(index, item[0])), np.dtype(item[1])
        strides = packed_signature(dtype, shape, where)[2] if len(item) == 2 else tuple(map(index, item[2]))
    except (IndexError, TypeError) as error:
        raise TypeError(
            f"{name} is stated as {item!r}, expected (shape, dtype) or (shape, dtype, strides in bytes), such as "
            f"((2, 3), 'float32'): {error}"
        ) from None
    if len(strides) != len(shape) or len(item) > 3:
        raise ValueError(f"{name} is stated as {item!r}, expected a stride in bytes for each of the {len(shape)} dimensions")
    return dtype, shape, strides, where


def _where(memory: Device) -> int:
    """The last item of the signature of a new array: at a multiple of 16 bytes, and writeable."""
    return memory.index << 4 if memory.on_gpu else WRITEABLE
