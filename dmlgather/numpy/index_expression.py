"""`dg.index`: index expressions in NumPy's notation, with execution, plans, fusion and DirectML descriptors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.calls.arguments import Fill, resolve_policy, type_of
from dmlgather.calls.prepared import known, repeats
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import Descriptors, Exporter, IndexDifferences, first_out_of_range, index_bounds
from dmlgather.dialects.problem import Problem, TensorType, whole
from dmlgather.dialects.view_forms import VIEW_FORMS, needed_by_indexing
from dmlgather.directml import FeatureLevel, Finding, OperatorDesc, Report
from dmlgather.fusion import Fused, fuse
from dmlgather.numpy.chain_graph import Policy, first_with_mode, graph_of, mode_report, with_policy
from dmlgather.numpy.plain_brackets import call_key, is_plain, prepare
from dmlgather.numpy.problems.links import (
    MODES,
    Brackets,
    Form,
    Link,
    ParsedEntry,
    Reshaped,
    TakenAlong,
    TakenByMode,
    Transposed,
    is_placeholder,
    parse_entry,
    parse_integer_array,
    parse_take_indices,
    problems,
    unpacked,
)
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis, take_along_axis_form
from dmlgather.plan import IndexPlan, OutOfBounds

CACHED_TYPES = 32
"""The most pairs of data type and shape for which an index expression keeps problems and fused steps."""

CACHED_EXPRESSIONS = 128
"""The most expressions that keep caches. Expressions that differ only in the values of index arrays count once."""


def _index_differences(problem: Problem, _: None) -> IndexDifferences | None:
    """Return the texts of finding EXP201, or None if the problem reads no indices."""
    if not problem.lookup_axes:
        return None
    bounds = index_bounds((problem.data.shape[axis] for axis in problem.lookup_axes), problem.tensors[1].dtype.kind == "i")
    remedy = "compare the indices with these bounds before you bind them, unless you know that all are in range"
    return IndexDifferences("indices", bounds, "an IndexError in NumPy", remedy)


EXPORTER = Exporter(
    {**VIEW_FORMS, TakeAlongAxis: take_along_axis_form},
    lambda problem: f"NumPy {problem.name}",
    needed_by_indexing,
    {"data": "x"},
    _index_differences,
)


def out_of_range(problem: Problem, indices: NDArray[Any]) -> Finding | None:
    """Return finding EXP111 for the first index out of range, or None."""
    bad_index = first_out_of_range(problem, indices)
    if bad_index is None:
        return None
    return CODES["EXP111"].finding(
        bad_index.place,
        expected=bad_index.valid.replace("data", "x"),
        got=str(bad_index.value),
        remedy="correct the index: NumPy raises an IndexError for it, and DirectML reads another element",
    )


class _Caches:
    """Caches of an index expression's problems and fused steps, by type and shape of the data."""

    def __init__(self, links: tuple[Link, ...]) -> None:
        def fused(data: TensorType, policy: Policy | None) -> Fused:
            return fuse(graph_of(links, data, policy))

        def fused_for_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Fused:
            return cached(type_of("x", (shape, dtype)), None)

        self.problems = lru_cache(CACHED_TYPES)(partial(problems, links))
        self.fused = cached = lru_cache(CACHED_TYPES)(fused)
        # NumPy's and CuPy's arrays have a second cache, because making a TensorType takes as long as a small call.
        self.fused_for_array = lru_cache(CACHED_TYPES)(fused_for_array)


class IndexExpression:
    """A chain of NumPy's indexing steps: brackets, take, take_along_axis, transpose and reshape. A call applies it to an array.

    `dg.index` is the empty expression. `dg.index[:, ids, ::-1](x)` returns x[:, ids, ::-1]. Brackets take the same entries as
    in NumPy: integers, slices, `...`, None, lists or arrays of integers, and masks. For plans and descriptors, a pair (shape,
    dtype) can replace an index array; such a pair is called a placeholder. The steps are fused into as few copies as possible.

    Index arrays are not copied, and masks are read when the expression is made. So do not change index arrays and masks while
    you use the expression.

    >>> ids = np.array([2, 0])
    >>> dg.index[:, ids, ::-1](np.arange(12).reshape(2, 3, 2)).tolist()
    [[[5, 4], [1, 0]], [[11, 10], [7, 6]]]
    >>> dg.index[:, ids][..., ::2].transpose(1, 0)(np.arange(12).reshape(2, 6)).tolist()
    [[2, 8]]
    """

    def __init__(self, links: tuple[Link, ...] = (), plain: tuple[Any, ...] = ()) -> None:
        """Make an expression of the steps `links`, or of one step with the entries `plain`, which are parsed later."""
        self._parsed, self._plain = links, plain

    @property
    def _links(self) -> tuple[Link, ...]:
        if self._plain and not self._parsed:
            self._parsed = (_brackets(self._plain),)
        return self._parsed

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexExpression, (self._links,)

    __iter__ = None  # otherwise list(dg.index) would call __getitem__ with 0, 1, … forever

    def __getitem__(self, key: Any) -> IndexExpression:
        """Return this expression with a step [key] added.

        If a mask is on a GPU, the host waits for the GPU, because the mask is read. Raises IndexError, ValueError and
        OverflowError for entries that are invalid for every array; TypeError for placeholders of masks.
        """
        items = key if isinstance(key, tuple) and not is_placeholder(key) else (key,)
        if items and not self._parsed and not self._plain and is_plain(items):
            return IndexExpression((), items)
        return IndexExpression((*self._links, _brackets(items)))

    def take_along_axis(self, indices: Any, axis: int | None = -1) -> IndexExpression:
        """Return this expression with `numpy.take_along_axis` added: the elements at `indices` along `axis`.

        `indices`: an integer array with the rank of the data, or a placeholder. Except along `axis`, data and indices are
        broadcast. `axis`: an integer. None flattens the data first, which is an extra step. Raises the errors that brackets
        with these indices raise.

        >>> dg.index.take_along_axis([[1], [0]], axis=1)(np.array([[1, 2], [3, 4]])).tolist()
        [[2], [3]]
        """
        if axis is None:
            return self.reshape(-1).take_along_axis(indices, 0)
        return IndexExpression((*self._links, TakenAlong(_parsed(0, indices, parse_integer_array), axis)))

    def take(self, indices: Any, axis: int | None = None, mode: str = "raise") -> IndexExpression:
        """Return this expression with `numpy.take` added: the elements at `indices` along `axis`.

        `indices`: an array of any shape, or a placeholder. Its elements are integers, or bools, which count as 0 and 1. `axis`:
        an integer; None flattens the data first. `mode`: the rule for an index out of range. "raise" is the rule of brackets:
        negative indices count from the end, and other indices out of range raise an IndexError. With "clip", a negative index
        takes the first element, and a too large index takes the last element. With "wrap", indices are taken modulo the size;
        the remainders are computed on the data's device.

        An expression with mode "clip" or "wrap" has no DirectML descriptor, and its calls take no `out_of_bounds`. With "wrap",
        the methods `problem`, `problems` and `plan` raise ValueError. Raises ValueError for another mode, TypeError for indices
        of another type.

        >>> data = np.array([10, 20, 30])
        >>> [dg.index.take([-1, 4], mode=mode)(data).tolist() for mode in ("clip", "wrap")]
        [[10, 30], [30, 20]]
        """
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, expected one of {', '.join(map(repr, MODES))}")
        if axis is None:
            return self.reshape(-1).take(indices, 0, mode)
        entry, axis = _parsed(0, indices, parse_take_indices), whole("axis", axis)
        if mode != "raise":
            return IndexExpression((*self._links, TakenByMode(entry, axis, mode)))
        full = ParsedEntry(slice(None))
        entries = (*[full] * axis, entry) if axis >= 0 else (ParsedEntry(...), entry, *[full] * (-axis - 1))
        return IndexExpression((*self._links, Brackets(entries)))

    def transpose(self, *axes: Any) -> IndexExpression:
        """Return this expression with NumPy's `transpose` added.

        `axes`: several arguments or one sequence. By default, the order of dimensions is reversed.

        >>> dg.index[:, [1, 0]].transpose(1, 0)(np.array([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
        """
        return IndexExpression((*self._links, Transposed(unpacked(axes) if axes else None)))

    def reshape(self, *shape: Any, order: str | None = "C", copy: bool | None = None) -> IndexExpression:
        """Return this expression with NumPy's `reshape` added.

        `shape`: several arguments or one sequence. One size may be -1: it is computed from the number of elements. None keeps
        the shape. `order`: "C" or None for row-major order; "F" for column-major order, which adds three steps. `copy`: None or
        True; the result is always a new array.

        Raises TypeError without a shape; ValueError for the order "A", which depends on strides, and for `copy=False`.

        >>> dg.index[::-1].reshape(2, -1)(np.arange(6)).tolist()
        [[5, 4, 3], [2, 1, 0]]
        >>> dg.index[::-1].reshape(2, -1, order="F")(np.arange(6)).tolist()
        [[5, 3, 1], [4, 2, 0]]
        """
        if not shape:
            raise TypeError("reshape has no shape: write the sizes, or () for an array without dimensions")
        if order not in ("C", "c", "F", "f", None):
            raise ValueError(f"order is {order!r}, expected 'C' or 'F', which do not depend on how an array lies in memory")
        if copy is not None and not copy:
            raise ValueError(f"copy is {copy!r}, but the result is a new array: leave copy out")
        sizes = unpacked(shape)
        if order in ("F", "f") and sizes is not None:
            return self.transpose().reshape(sizes[::-1]).transpose()
        return IndexExpression((*self._links, Reshaped(sizes)))

    def __repr__(self) -> str:
        return f"dg.index{''.join(map(str, self._links))}"

    def problems(self, x: Any) -> tuple[Problem, ...]:
        """Return one problem per step for data `x`.

        Each problem reads the output of the problem before it, and the first reads `x`. `x`: an array, anything with `shape`
        and `dtype`, or a pair (shape, dtype). Raises IndexError, ValueError and TypeError like NumPy.

        >>> [str(problem.output) for problem in dg.index[:, [2, 0]][0].problems(((4, 3, 5), "float32"))]
        ['float32 [4, 2, 5]', 'float32 [2, 5]']
        """
        return self._caches.problems(type_of("x", x))

    def problem(self, x: Any) -> Problem:
        """Return the problem of an expression with one step, for data `x`. Raises ValueError if there are several steps.

        >>> dg.index[:, [2, 0, 2], ::-1].problem(((4, 3, 5), "float32")).output.shape
        (4, 3, 5)
        """
        if len(self._links) != 1:
            raise ValueError(f"{self} has {len(self._links)} steps: call problems(x), or fused(x)")
        return self.problems(x)[0]

    @cached_property
    def indices(self) -> tuple[Any, ...]:
        """The index tensors of the steps, in order. `fused` takes them after the data. A descriptor takes an index tensor as
        IndicesTensor.

        A step without index arrays has no index tensor. One index array is the index tensor itself. Several index arrays are
        broadcast to one shape [i…] and stacked to an index tensor of shape [i…, number of arrays]. A mask counts as the arrays
        `mask.nonzero()`. Raises TypeError for placeholders, IndexError for arrays that cannot be broadcast.

        >>> dg.index[[[0], [1]], :, [2, 3]].indices[0].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        return self._indices_in(CPU)

    def fused(self, x: Any, *, out_of_bounds: str | Fill | None = None) -> Fused:
        """Fuse the steps into as few launches as possible.

        Call the result with the data and the tensors of `indices`. `x`: the data, or anything with the same shape and type.

        >>> len(dg.index[:, ((3,), "int64")][..., ::2].transpose(1, 0).fused(((4, 10), "float32")).launches)
        1
        """
        data = type_of("x", x)
        return self._caches.fused(data, self._policy(out_of_bounds, data))

    def __call__(
        self,
        x: Any,
        *,
        out: Any = None,
        out_of_bounds: str | Fill | None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any:
        """Apply the expression to `x`. Return a new array of x's array type, or `out`.

        `x`: an array of any type with elements of whole bytes; strings only on the CPU. `out`: an array that receives the
        result and is returned. `out_of_bounds`: what an index out of range does: "clamp", "raise", "promise" or a Fill. None
        means NumPy's rule, an IndexError. `device`: where the call runs: "cpu", "cuda", "cuda:N" or "reference". None means the
        arrays' device. `stream`: the GPU stream of the call.

        Raises the errors of NumPy; TypeError for placeholders of index arrays, and for arrays on several devices; ValueError
        for an `out` of another shape, or that overlaps an input.

        >>> dg.index[[0, 7], ::-1](np.array([[1, 2], [3, 4]]), out_of_bounds="clamp").tolist()
        [[2, 1], [4, 3]]
        """
        if self._plain and out_of_bounds is None and device is None and stream is None:
            result = self._fast_call(x, out)
            if result is not None:
                return result
        if out_of_bounds is None and arrays.is_view(x):
            fused = self._caches.fused_for_array(x.dtype, x.shape)
        else:
            fused = self.fused(x, out_of_bounds=out_of_bounds)
        return fused(x, *self._indices_for_call(x, device, stream), out=out, device=device, stream=stream)

    def plan(self, x: Any, *, out_of_bounds: str | Fill | None = None) -> IndexPlan:
        """Return the plan that computes the whole expression on contiguous arrays.

        `x`: an array, anything with `shape` and `dtype`, or a pair (shape, dtype). `out_of_bounds`: the same as in a call.
        Raises ValueError if the steps cannot be fused into one plan.

        >>> dg.index[::2].plan(((6,), "float32")).in_strides
        (2,)
        """
        if len(self._links) == 1:
            problem = self.problem(x)
            return with_policy(problem, self._policy(out_of_bounds, problem.data)).plan()
        policy = self._policy(out_of_bounds, type_of("x", x))
        fused = fuse([with_policy(problem, policy) for problem in self.problems(x)], join=False)
        if len(fused.launches) > 1:
            raise ValueError(f"{self} is {len(fused.launches)} plans: {fused.cuts[0].reason}; fused(x) has all of them")
        return fused.launches[0].plan

    def to_directml(self, x: Any, level: str | FeatureLevel = "6_4") -> OperatorDesc | Descriptors | Report:
        """Return the DirectML descriptor of the expression for data `x`, or a report of why it has none.

        `x`: an array, anything with `shape` and `dtype`, or a pair (shape, dtype). `level`: DirectML's feature level, such as
        "6_4".

        Returns one descriptor, or a tuple of descriptors in the order of execution. If the level cannot express the expression,
        returns a Report: its findings name the limit of the level, a broken rule of NumPy, or an index out of range
        (`docs/expressing.md`). Raises ValueError for an unknown level.

        >>> desc = dg.index[:, ((3,), "int64")].to_directml(((4, 10), "float32"))
        >>> desc.operator.name, desc.axis, desc.output_tensor.sizes
        ('GATHER', 1, (4, 3))
        """
        feature_level, data = FeatureLevel.parse(level), type_of("x", x)
        if (with_mode := first_with_mode(self._links)) is not None:
            return mode_report(with_mode, feature_level)
        result = list[OperatorDesc]()
        for number, link in enumerate(self._links):

            def problem(at: int = number) -> Problem:
                return self.problems(data)[at]

            descriptors = EXPORTER.to_directml(problem, feature_level, "NumPy", "index")
            with suppress(IndexError, ValueError, TypeError):  # already in the report
                indices = _known_indices(link)
                finding = None if indices is None else out_of_range(problem(), indices)
                if finding is not None:
                    others = descriptors.findings if isinstance(descriptors, Report) else ()
                    return Report(subject="NumPy index", level=feature_level, findings=(finding, *others))
            if isinstance(descriptors, Report):
                return descriptors
            result += descriptors if isinstance(descriptors, tuple) else (descriptors,)
        return result[0] if len(result) == 1 else tuple(result)

    def differences(self, x: Any) -> tuple[Finding, ...]:
        """Return warnings EXP201 about indices that raise an IndexError in NumPy, but read an element in DirectML.

        `x`: the argument of `to_directml`. Index arrays in host memory give no warnings, because `to_directml` checks their
        values. Raises the errors of `problems`.

        >>> [finding.expected for finding in dg.index[:, ((3,), "int64")].differences(((4, 10), "float32"))]
        ['indices from -10 to 9']
        """
        if first_with_mode(self._links) is not None:
            return ()
        pairs = zip(self._links, self.problems(x), strict=True)
        unknown = (problem for link, problem in pairs if _known_indices(link) is None)
        return tuple(finding for problem in unknown for finding in EXPORTER.differences(problem))

    def _policy(self, out_of_bounds: str | Fill | None, data: TensorType) -> Policy | None:
        """Return the rule for indices out of range. None means that each step keeps its own rule."""
        if out_of_bounds is None:
            return None
        if (link := first_with_mode(self._links)) is not None:
            raise ValueError(
                f"out_of_bounds is given, but {link} has a mode, which is also a rule for indices out of range: omit one of them"
            )
        return resolve_policy(out_of_bounds, OutOfBounds.RAISE, data.dtype)

    def _fast_call(self, x: Any, out: Any) -> Any:
        """Run a single step of plain entries (`is_plain`) by a cached prepared call. Return None if this is impossible."""
        keyed = call_key(self._plain, x, out)
        if keyed is None:
            return None
        key, call_arrays = keyed
        cached = known(IndexExpression, key)
        if not cached:
            call = prepare(lambda data: self._caches.problems(data)[0], call_arrays)
            rekeyed = call_key(self._plain, x, out)
            if call is None or rekeyed is None or rekeyed[0] != key:  # an array was changed meanwhile
                return None
            cached[:] = repeats(call, call_arrays)
        return cached[0](call_arrays) if cached else None

    @cached_property
    def _caches(self) -> _Caches:
        if not self._links:
            raise ValueError("dg.index has no steps: write brackets behind it, dg.index[…]")
        form = Form.of(self._links)
        try:
            return _caches_of(form)
        except TypeError:  # a slice's bound, an axis or a size is not hashable
            return _Caches(form.links)

    def _indices_for_call(self, x: Any, device: str | None, stream: Any) -> tuple[Any, ...]:
        """Return `indices` on the device of a call. Copies on a GPU are kept for later calls."""
        if device is None and isinstance(x, np.ndarray):
            return self.indices
        memory = arrays.home_of(x) if device is None else Device.parse(device).memory
        if not memory.on_gpu:
            return self.indices
        indices = self._moved.get(memory)
        if indices is None:
            from dmlgather.backends.cuda.driver import preparing

            with preparing(), arrays.in_order((), stream, memory):
                indices = self._indices_in(memory)
                for array in indices:  # the next call may use another stream
                    arrays.wait(array)
            self._moved[memory] = indices
        return indices

    def _indices_in(self, memory: Device) -> tuple[Any, ...]:
        """Return the index tensor of each step that has one: on the GPU of the step's index arrays, else in `memory`."""
        links = tuple(link for link in self._links if isinstance(link, Brackets | TakenAlong) and link.looks_up)
        if any(link.has_placeholder for link in links):
            raise TypeError(f"{self} has a placeholder for an index array: write the array itself to run it")
        tensors = []
        for link in links:
            moved, home = arrays.together(link.arrays, memory)
            with home.current():
                indices = link.indices(moved)
            tensors.append(arrays.move(indices, arrays.home_of(indices), home))
        return tuple(tensors)

    @cached_property
    def _moved(self) -> dict[Device, tuple[Any, ...]]:
        return {}


@lru_cache(CACHED_EXPRESSIONS)
def _caches_of(form: Form) -> _Caches:
    return _Caches(form.links)


def _known_indices(link: Link) -> np.ndarray[Any, Any] | None:
    """Return the index tensor of a step if its values are in host memory, else None."""
    if not isinstance(link, Brackets | TakenAlong) or not link.looks_up or link.has_placeholder:
        return None
    with suppress(IndexError):
        if all(isinstance(array, np.ndarray) for array in link.arrays):
            indices: np.ndarray[Any, Any] = link.indices(link.arrays)
            return indices
    return None


def _brackets(items: Sequence[Any]) -> Brackets:
    return Brackets(tuple(_parsed(number, item, partial(parse_entry, number)) for number, item in enumerate(items)))


def _parsed(number: int, item: Any, parse: Callable[[Any], ParsedEntry]) -> ParsedEntry:
    """Apply `parse` to an entry. Arrays of other libraries first become NumPy or CuPy arrays."""
    if isinstance(item, np.generic) or type(item) is np.ndarray:
        return parse(item)
    if not (isinstance(item, np.ndarray) or hasattr(item, "__dlpack__") or hasattr(item, "__cuda_array_interface__")):
        return parse(item)
    try:
        array, device = arrays.adopt(item)
    except TypeError as error:
        raise TypeError(f"entry {number}: {error}") from None
    with device.current():
        entry = parse(array)
    for index_array in entry.arrays or ():
        if index_array is not array:  # it was computed from a mask, and later calls may read it on any stream
            arrays.wait(index_array)
    return entry


index = IndexExpression()
"""The empty index expression: `dg.index[:, ids, ::-1](x)` returns x[:, ids, ::-1]."""
