"""Compile a DirectML operator descriptor and run it on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from dmlgather.backends import arrays
from dmlgather.backends.devices import Device
from dmlgather.backends.executor import ROUTES_KEPT
from dmlgather.backends.footprints import signature_on, signatures
from dmlgather.backends.outcomes import Outcome
from dmlgather.backends.routes import BoundRun, Route
from dmlgather.binding import Binding
from dmlgather.directml import FeatureLevel, OperatorDesc, validate
from dmlgather.explain import Explanation, explain
from dmlgather.plan import IndexPlan, Layout
from dmlgather.policy import Fill


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
        self._binding = Binding(desc, device, out_of_bounds)
        # Keyed by signatures, never by identity: arrays change in place, and Python reuses ids.
        self._route = lru_cache(ROUTES_KEPT)(self._binding.route)
        self._buffer_route = lru_cache(ROUTES_KEPT)(self._binding.buffer_route)
        self._address_route = lru_cache(ROUTES_KEPT)(self._binding.address_route)
        self._place = lru_cache(ROUTES_KEPT)(self._binding.place)
        self._last: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledOperator, self._made_of  # routes and programs are prepared again

    def __repr__(self) -> str:
        return f"<CompiledOperator {self._binding.shown(self._binding.device)}>"

    @cached_property
    def plan(self) -> IndexPlan:
        """The plan over the described layouts, as lowered."""
        return self.lower([tensor.layout() for tensor in self._binding.tensors.values()])

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
        found = signatures((*inputs, out))
        if out is None and stream is None and (place := self._place(*found[:-1])) is not None:
            out = self._allocated(place)
            found[-1:] = signatures((out,))
        route = self._route(*found)
        if route is None:
            return self._run_elsewhere(inputs, out, stream)
        self._run(route, inputs, out, stream)
        return out

    def bind(self, *inputs: Any, out: Any) -> BoundOperator:
        """The operator with its arrays fixed: the cheapest way to run it again, and what a CUDA graph captures.

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
        given, device = (*inputs, out), self._binding.device
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
        with arrays.in_order((*inputs, out), stream, self._binding.device):
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
        target = self._binding.prepared_device(device)
        if layouts is None:
            self._route(*self._binding.stated(target, None))
            if target.on_gpu:
                self._address_route(str(target))
            return
        for number, layout in enumerate(layouts):
            try:
                found = self._binding.stated(target, layout)
                self._place(*found[:-1])
                self._route(*found)
            except (TypeError, ValueError) as error:
                raise type(error)(f"layouts[{number}]: {error}") from None

    def launch(self, *pointers: int, stream: Any = None, device: str | None = None) -> None:
        """Run on device addresses (inputs, then output) of whole buffers of TotalTensorSizeInBytes.

        device: "cuda" or "cuda:N", unless the operator was compiled for a device. Only the addresses can be checked: TypeError
        for another number of them; ValueError for one that is not a multiple of 16 bytes, for an output that overlaps an input,
        and for a device that is no GPU.
        """
        tensors = self._binding.tensors
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
        return explain(self.desc, self.plan)

    def lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """The plan over other layouts: one per tensor in binding order, inputs first."""
        return self._binding.lower(layouts)

    def _run(self, route: Route, inputs: Sequence[Any], out: Any, stream: Any) -> None:
        self._last = outcome = route.run(inputs, out, stream)
        if outcome is not None and not route.device.on_gpu:
            self._raise(outcome)

    def _run_elsewhere(self, inputs: Sequence[Any], out: Any, stream: Any) -> Any:
        """A call whose arrays have to be adopted, moved to the operator's device or allocated before it runs."""
        self._binding.check_count(len(inputs))
        with arrays.in_order((*inputs, out), stream, self._binding.device):
            brought = [self._brought(array) for array in inputs]
            known = [signature_on(device, array) for array, device in brought]
            place = self._place(*known)
            assert place is not None
            if out is None:
                name = self._binding.output
                out = arrays.new_tensor(place, self._binding.tensors[name].sizes, self._binding.dtypes[name], inputs[0])
            if out is None:
                result = self._allocated(place)
            else:
                result, place = self._brought(out, arrays.adopt_output)
            route = self._route(*known, signature_on(place, result))
            assert route is not None
            self._run(route, [array for array, _ in brought], result, stream)
            return self._returned(inputs, out, result, place)

    def _allocated(self, place: Device) -> Any:
        name = self._binding.output
        return arrays.allocate(place, self._binding.tensors[name].sizes, self._binding.dtypes[name])

    def _brought(self, array: Any, adopt: Callable[[Any], tuple[Any, Device]] = arrays.adopt) -> tuple[Any, Device]:
        """The array in memory of the device that runs, and that memory's device."""
        adopted, device = adopt(array)
        home = device if self._binding.device is None else self._binding.device.memory
        return arrays.move(adopted, device, home), home

    def _returned(self, inputs: Sequence[Any], out: Any, result: Any, place: Device) -> Any:
        if out is None:
            home = arrays.home_of(inputs[0])
            return arrays.hand_back(arrays.move(result, place, home), inputs[0])
        if (home := arrays.home_of(out)) != place:  # `device=` said to compute elsewhere; `out` still gets the result
            arrays.fill_from(arrays.adopt(out)[0], home, arrays.move(result, place, home))
        return out

    def _raise(self, outcome: Outcome) -> None:
        outcome.raise_for_bad_index("IndicesTensor", self.desc.operator.lookup_axes(self.desc))


class BoundOperator:
    """A compiled operator with its arrays, which it keeps alive. `CompiledOperator.bind` makes one."""

    def __init__(self, operator: CompiledOperator, run: BoundRun, device: Device) -> None:
        self._operator, self._run, self._device = operator, run, device
        self._at_once = not device.on_gpu
        self._last: Outcome | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a bound operator holds the addresses of its arrays: pickle or copy the operator, and bind it again")

    def __repr__(self) -> str:
        return f"<BoundOperator {self._operator._binding.shown(self._device)}>"

    def __call__(self, stream: Any = None) -> None:
        """Run into the bound output; on a GPU on `stream`, as a call, without a sync or an allocation.

        A CUDA graph that captured this uses the binding's memory: keep the binding as long as the graph.
        """
        self._last = outcome = self._run(stream)
        if outcome is not None and self._at_once:
            self.raise_if_bad()

    def raise_if_bad(self) -> None:
        """As `CompiledOperator.raise_if_bad`, for this binding's last run. After a CUDA graph that ran on another stream than it
        was captured on, wait for that stream first.
        """
        last = self._last
        if last is not None:
            self._operator._raise(last)
