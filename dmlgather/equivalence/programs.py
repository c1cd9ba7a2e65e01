"""`equivalent`: whether two programs of any kind index alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dmlgather.equivalence.deciding import ASSUMPTIONS, check_decision, decide
from dmlgather.equivalence.results import Equivalence, Given
from dmlgather.graph_sources import check_all_read, read_program


def equivalent(
    first: Any,
    second: Any,
    /,
    *example: Any,
    inputs: Mapping[str, Any] | None = None,
    given: Given = "any",
    seed: int = 0,
    assume: Collection[str] = ASSUMPTIONS,
) -> Equivalence:
    """Whether two programs index alike: proven for all inputs of the stated shapes, or a counterexample, or not proven.

    first, second: each a path (.onnx, .xml, or .json of a DxDispatch model or a descriptor), an onnx.ModelProto, a function of
    JAX or a closed jaxpr, a module, a function or an ExportedProgram of PyTorch, what `dg.index` or `dg.fuse` gives, descriptors
    of DirectML, a problem or a chain of problems, or an IndexGraph. A function is PyTorch's where an example is a tensor of
    PyTorch, else JAX's; one of jax.jit always is JAX's. example: the arguments of functions, as arrays, tensors,
    jax.ShapeDtypeStruct or pairs (shape, dtype); of `dg.index`, the first one is the data. What stands between its brackets is a
    constant, and a placeholder there an input. inputs: what models leave open, as for `dg.onnx.index_graph`.

    given: "any": for all inputs, both programs raise or both write the same bits. "valid": the same, but only for inputs for
    which no index of the first program is out of range, by the rules of its own operators; there the second one must not raise.
    seed: of the search for a counterexample.

    Operators that do not index are not looked into: they give the same bits, or raise, where operator, attributes and inputs are
    equal. assume: the operators of which two libraries are assumed to give the same bits, such as "softmax", and "raise_nothing":
    that operators that no output needs raise for no inputs; all of these unless stated, () for none. `assumptions` of the result
    lists what a proof assumed.

    Raises ValueError for another `given` or `assume`, a negative `seed`, and `inputs` that neither program has, FileError for a
    file that cannot be used, TypeError for what is no program and for examples that neither program reads, and what the readers
    of programs raise.

    >>> import jax
    >>> table, ids = jax.ShapeDtypeStruct((100, 8), "float32"), jax.ShapeDtypeStruct((4,), "int32")
    >>> print(dg.equivalent(lambda x, i: x[i][:, ::-1], lambda x, i: x[:, ::-1][i], table, ids))
    proven: equal for all inputs of these shapes
    >>> print(dg.equivalent(lambda x, i: x[i], lambda x, i: x.at[i].get(mode="fill"), table, ids).verdict)
    different
    """
    check_decision(given, seed, assume)
    one = read_program(first, *example, inputs=inputs, others=True, argument="first")
    two = read_program(second, *example, inputs=inputs, others=True, argument="second")
    check_all_read([one, two], example, inputs)
    return decide(one.graph, two.graph, given=given, flat=one.buffers or two.buffers, seed=seed, assume=assume)
