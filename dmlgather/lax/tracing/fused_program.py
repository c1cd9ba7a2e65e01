"""A traced function whose gathers, slices and views run fused by dmlgather, and whose opaque equations run by JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.index_graph import Step
from dmlgather.fusion import Fused, fuse
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.index_graph import ProgramGraph, read_program
from dmlgather.lax.tracing.jaxprs import Place


@dataclass(frozen=True, slots=True)
class FusedProgram:
    """program: a closed jaxpr. arguments, results: the trees of the function's arguments, (args, kwargs), and of its results."""

    program: Any
    arguments: Any
    results: Any
    read: ProgramGraph
    fused: Fused

    @classmethod
    def of(cls, program: Any, arguments: Any, results: Any) -> FusedProgram:
        """Read and fused. What has effects, such as printing, is kept."""
        read = read_program(program)
        return cls(program, arguments, results, read, fuse(read.graph, keep=read.effects))

    def launches(self) -> Mapping[Place, tuple[int, ...]]:
        """The numbers of the launches that do an equation, by the equation's place."""
        done: dict[str, list[int]] = {}
        for number, launch in enumerate(self.fused.launches):
            for step in launch.holds:
                done.setdefault(step, []).append(number)
        return {place: tuple(done.get(step, ())) for place, step in self.read.steps.items()}

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns; see `Trace.run`."""
        jax = jaxprs.library()
        leaves = self._leaves(args, kwargs)
        given = next((leaf for leaf in leaves if isinstance(leaf, jax.Array)), None)
        make = np.asarray if given is None else jax.numpy.asarray
        values = {}
        for name, leaf, aval in zip(self.read.graph.inputs, leaves, self.program.in_avals, strict=True):
            values[name] = jax.random.key_data(leaf) if jaxprs.extended(aval.dtype) else make(leaf, aval.dtype)
        home = CPU if given is None else arrays.home_of(next(iter(values.values())))

        def compute(step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
            return self._compute(step, inputs, home)

        found = self.fused.run(values, compute=compute)
        results = (found[name] for name in self.read.graph.outputs)
        avals = self.program.out_avals
        return jax.tree.unflatten(self.results, [_keyed(value, aval) for value, aval in zip(results, avals, strict=True)])

    def _leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arrays among arguments. TypeError unless they are such as were traced."""
        jax = jaxprs.library()
        leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
        if tree != self.arguments:
            raise TypeError(f"the arguments form {tree}, but {self.arguments} was traced: trace the function again for others")
        expected = zip(self.read.graph.inputs, leaves, self.program.in_avals, strict=True)
        for name, leaf, aval in expected:
            if isinstance(leaf, jax.ShapeDtypeStruct):
                raise TypeError(f"{name} is {leaf}, a shape without values: run needs an array")
            if isinstance(leaf, jax.Array | np.ndarray) and (leaf.shape, leaf.dtype) == (aval.shape, aval.dtype):
                continue
            try:
                found = jax.eval_shape(lambda x: x, leaf)  # with the type that JAX makes of it
            except TypeError:
                raise TypeError(f"{name} is of type {type(leaf).__name__}, expected an array, or a number") from None
            if (found.shape, found.dtype) != (aval.shape, aval.dtype):
                raise TypeError(
                    f"{name} is {found.dtype}{list(found.shape)}, but {aval.dtype}{list(aval.shape)} was traced: "
                    "trace the function again for other shapes and types"
                )
        return list(leaves)

    def _compute(self, step: Step, inputs: Sequence[Any], home: Device) -> list[Any]:
        """What an opaque step writes, on the device `home`."""
        jax = jaxprs.library()
        jaxpr, eqn = self.read.opaque[step.name]
        values = [
            value if not isinstance(atom.aval, jax.core.ShapedArray) else _keyed(_for_jax(value), atom.aval)
            for value, atom in zip(inputs, eqn.invars, strict=True)
        ]
        results = [
            _taken(value, variable.aval, home)
            for value, variable in zip(jaxprs.bind(jaxpr, eqn, values), eqn.outvars, strict=True)
        ]
        return [*results, *(arrays.move(np.ones((), bool), CPU, home) for _ in step.outputs[len(results) :])]


def _for_jax(array: Any) -> Any:
    """An array of a launch as JAX takes it."""
    return array if isinstance(array, np.ndarray) else jaxprs.library().dlpack.from_dlpack(array)


def _keyed(value: Any, aval: Any) -> Any:
    """PRNG keys of their words; other values as they are."""
    if not jaxprs.extended(aval.dtype) or jaxprs.key_words(aval.dtype) is None:
        return value
    jax = jaxprs.library()
    return jax.random.wrap_key_data(value, impl=jax.random.key_impl(jax.numpy.zeros((), aval.dtype)))


def _taken(value: Any, aval: Any, home: Device) -> Any:
    """A result of JAX as an array for launches on the device `home`; what is no array as it is."""
    jax = jaxprs.library()
    if not isinstance(aval, jax.core.ShapedArray):
        return value
    if jaxprs.extended(aval.dtype):
        if jaxprs.key_words(aval.dtype) is None:
            return value
        value = jax.random.key_data(value)
    array, device = arrays.adopt(value)
    return arrays.move(array, device, home)
