"""The device "directml" of a comparison: DirectML itself, by the package `directml` of PyPI, which runs on Windows alone.

The package has GATHER and SLICE1. It describes inputs as DirectML does, but chooses the output's sizes itself and packs it. Where
it would run another descriptor than the given one, that is refused. This module is written after the package's stub file and its
sources in Python (0.1.0). It has been tried with a stand-in of the same signatures only, not on Windows.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.driver import DeviceError
from dmlgather.directml import BufferTensorDesc, GatherOperatorDesc, OperatorDesc, Slice1OperatorDesc, TensorFlags
from dmlgather.directml.dxdispatch.values import dtype_of
from dmlgather.directml.fields import wire_name
from dmlgather.model_runner import elements
from dmlgather.operator import CompiledOperator
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, packed_strides
from dmlgather.wording import braces

DIRECTML = "directml"
"""The device's name, and the package's."""

INSTALL = f"pip install {DIRECTML}"
MISSING = f"the device {DIRECTML} needs the package {DIRECTML}, which runs on Windows: {INSTALL}"


def host_of(name: str) -> str:
    """The device in whose memory the arrays lie: "cpu" for "directml", else the device itself."""
    return "cpu" if name == DIRECTML else name


def operator_on(name: str, compiled: CompiledOperator) -> AnyOperator:
    """What runs `compiled` on the device called `name`.

    For "directml": DeviceError where the package is missing or cannot describe the operator, ValueError for a policy other than
    clamping.
    """
    return DirectMLOperator(compiled) if name == DIRECTML else compiled


def title() -> str:
    """What the device is, for people."""
    return f"DirectML, by the package {DIRECTML} {importlib.metadata.version(DIRECTML)}"


class DirectMLOperator:
    """An operator that DirectML runs; it is called as a compiled operator is. Every run waits for its result."""

    def __init__(self, compiled: CompiledOperator) -> None:
        plan = compiled.plan
        if plan.lookups and plan.out_of_bounds not in (OutOfBounds.CLAMP, OutOfBounds.PROMISE):
            raise ValueError(f"{DIRECTML} can only clamp an index out of range: compare with out_of_bounds='clamp'")
        self.desc, self._compiled = compiled.desc, compiled
        _check_expressible(self.desc)
        self._package = package()

    def lower(self, layouts: list[Layout]) -> IndexPlan:
        """As `CompiledOperator.lower`."""
        return self._compiled.lower(layouts)

    def raise_if_bad(self) -> None:
        """Nothing: an index out of range raises no error in DirectML."""

    def __call__(self, *inputs: Any, out: NDArray[Any]) -> None:
        """Run on arrays of the described Sizes, or one-dimensional buffers, in host memory."""
        from dmlgather.comparing.saving import buffers

        held = buffers(self.desc, [np.asarray(array) for array in inputs], described=False)
        written = self._run([array.view(np.uint8) for array in held])
        out.view(written.dtype)[...] = written

    def run_buffers(self, *inputs: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Run on byte buffers in host memory, read through the described strides."""
        written = self._run(list(inputs))
        elements(out, self.desc.tensor(self.desc.operator.output)).view(written.dtype)[...] = written

    def _run(self, buffers: list[NDArray[np.uint8]]) -> NDArray[Any]:
        """The output, of shape Sizes, as unsigned integers."""
        output, names = self.desc.tensor(self.desc.operator.output), self.desc.operator.inputs
        tensors = {wire_name(field): self.desc.tensor(field) for field in names}
        values = {name: _values(tensor, raw) for (name, tensor), raw in zip(tensors.items(), buffers, strict=True)}
        owned = {name for name, tensor in tensors.items() if tensor.flags & TensorFlags.OWNED_BY_DML}
        with _failures(self.desc):
            graph = self._package.Graph(_device())
            described = [graph.input(desc=_described(self._package, tensor), name=name) for name, tensor in tensors.items()]
            result = _MAKERS[type(self.desc)](self._package, self.desc, described)
            if tuple(result.shape) != output.sizes:
                sizes = f"{braces(tuple(result.shape))}, and not {braces(output.sizes)}"
                raise DeviceError(f"the package {DIRECTML} gives this {self.desc.operator.name} an output of sizes {sizes}")
            operator = graph.compile([result])
            if owned:
                operator.initialize({name: values[name] for name in owned})
            (found,) = operator.dispatch({name: value for name, value in values.items() if name not in owned})
        found = np.ascontiguousarray(found)
        if found.dtype != dtype_of(output.data_type) or found.shape != output.sizes:
            raise DeviceError(f"the package {DIRECTML} returned {found.dtype} of shape {found.shape}")
        return found.view(f"u{found.itemsize}")


AnyOperator = CompiledOperator | DirectMLOperator
"""What runs on any device of a comparison."""


@functools.cache
def package() -> Any:
    """The package `directml`. DeviceError, with the remedy, where it cannot be imported."""
    try:
        found = importlib.import_module(DIRECTML)
    except ModuleNotFoundError as error:
        if error.name != DIRECTML:
            raise DeviceError(f"the package {DIRECTML} needs the package {error.name}: {INSTALL}") from None
        raise DeviceError(MISSING) from None
    except ImportError as error:
        raise DeviceError(f"the package {DIRECTML} cannot be imported: {error}") from None
    if not hasattr(found, "Graph"):  # a folder of that name on the path, which Python takes for a package
        raise DeviceError(MISSING)
    return found


@functools.cache
def _device() -> Any:
    return package().Device()


@contextmanager
def _failures(desc: OperatorDesc) -> Iterator[None]:
    try:
        yield
    except DeviceError:
        raise
    except Exception as error:  # the package documents ValueError and TypeError, and raises others with DirectML's own codes
        message = " ".join(str(error).split()) or type(error).__name__
        raise DeviceError(f"DirectML did not run {desc.operator.name}: {message}") from None


def _check_expressible(desc: OperatorDesc) -> None:
    """DeviceError for a descriptor that the package cannot describe as it is."""
    if type(desc) not in _MAKERS:
        known = " and ".join(kind.operator.name for kind in _MAKERS)
        raise DeviceError(f"the package {DIRECTML} has no {desc.operator.name}, only {known}: use `python -m conformance`")
    output = desc.tensor(desc.operator.output)
    if output.strides not in (None, packed_strides(output.sizes)) or output.total_bytes != output.minimum_bytes:
        raise DeviceError(f"the package {DIRECTML} packs outputs, and OutputTensor is not packed: use `python -m conformance`")
    for field in desc.operator.inputs:
        tensor = desc.tensor(field)
        if tensor.strides is None and tensor.total_bytes != tensor.minimum_bytes:
            raise DeviceError(
                f"the package {DIRECTML} binds a packed tensor of {tensor.minimum_bytes} bytes, and {wire_name(field)} states "
                f"{tensor.total_bytes}: leave TotalTensorSizeInBytes out, or state Strides"
            )


def _described(dml: Any, tensor: BufferTensorDesc) -> Any:
    flags = dml.TensorFlags.OWNED_BY_DML if tensor.flags & TensorFlags.OWNED_BY_DML else dml.TensorFlags.NONE
    return dml.TensorDesc(
        dtype_of(tensor.data_type),
        list(tensor.sizes),
        flags=flags,
        strides=None if tensor.strides is None else list(tensor.strides),
        total_tensor_size_in_bytes=tensor.total_tensor_size_in_bytes,
        guaranteed_base_offset_alignment=tensor.guaranteed_base_offset_alignment,
    )


def _values(tensor: BufferTensorDesc, raw: NDArray[np.uint8]) -> NDArray[Any]:
    """What the package binds: a packed tensor's elements, of shape Sizes; else as many elements as the tensor's buffer holds."""
    dtype = dtype_of(tensor.data_type)
    if tensor.strides is None:
        return elements(raw, tensor)
    count = -(-tensor.total_bytes // dtype.itemsize)
    held = np.zeros(count * dtype.itemsize, np.uint8)
    part = raw[: held.size]
    held[: part.size] = part
    return held.view(dtype)


def _gather(dml: Any, desc: GatherOperatorDesc, inputs: list[Any]) -> Any:
    return dml.gather(*inputs, axis=desc.axis, index_dimensions=desc.index_dimensions)


def _slice1(dml: Any, desc: Slice1OperatorDesc, inputs: list[Any]) -> Any:
    return dml.slice(
        *inputs,
        input_window_offsets=list(desc.input_window_offsets),
        input_window_sizes=list(desc.input_window_sizes),
        input_window_strides=list(desc.input_window_strides),
    )


_MAKERS: dict[type[OperatorDesc], Callable[..., Any]] = {GatherOperatorDesc: _gather, Slice1OperatorDesc: _slice1}
"""How the package makes the operators that it has."""
