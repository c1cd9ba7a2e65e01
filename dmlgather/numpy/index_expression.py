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
"""Size of the LRU caches of an expression: types of data with their problems and fused steps."""

CACHED_EXPRESSIONS = 128
"""Size of the LRU cache of expressions. Expressions with index arrays of equal types and shapes share an entry."""


def _index_differences(problem: Problem, _: None) -> IndexDifferences | None:
    """Return the indices that raise an IndexError in NumPy, while DirectML reads an element."""
    if not problem.lookup_axes:
        return None
    bounds = index_bounds((problem.data.shape[axis] for axis in problem.lookup_axes), problem.tensors[1].dtype.kind == "i")
    remedy = "compare the indices with these bounds before they are bound, unless all are known to be in range"
    return IndexDifferences("indices", bounds, "an IndexError in NumPy", remedy)


EXPORTER = Exporter(
    {**VIEW_FORMS, TakeAlongAxis: take_along_axis_form},
    lambda problem: f"NumPy {problem.name}",
    needed_by_indexing,
    {"data": "x"},
    _index_differences,
)


def out_of_range(problem: Problem, indices: NDArray[Any]) -> Finding | None:
    """Return the finding about the first index out of range, or None."""
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
    """Caches of the problems and fused steps of links, by the type of the data."""

    def __init__(self, links: tuple[Link, ...]) -> None:
        self.problems = lru_cache(CACHED_TYPES)(partial(_problems, links))
        self.fused = lru_cache(CACHED_TYPES)(partial(_fused, links))
        # A second cache by dtype and shape, for NumPy's and CuPy's arrays: making a TensorType takes as long as a small call.
        self.fused_for_array = lru_cache(CACHED_TYPES)(partial(_fused_for_array, self.fused))


class IndexExpression:
    """An index expression: brackets, take, take_along_axis, transpose and reshape. A call applies it to an array.

    `dg.index` is the empty expression. `dg.index[:, ids, ::-1](x)` returns x[:, ids, ::-1]. Entries of brackets are NumPy's:
    integers, slices, `...`, None, lists or arrays of integers, and masks. For plans and descriptors, a pair (shape, dtype), a
    placeholder, can replace an index array. Several steps run fused.

    Index arrays are not copied, and masks are read when the expression is made: do not change either while you use it.

    >>> ids = np.array([2, 0])
    >>> dg.index[:, ids, ::-1](np.arange(12).reshape(2, 3, 2)).tolist()
    [[[5, 4], [1, 0]], [[11, 10], [7, 6]]]
    >>> dg.index[:, ids][..., ::2].transpose(1, 0)(np.arange(12).reshape(2, 6)).tolist()
    [[2, 8]]
    """

    def __init__(self, links: tuple[Link, ...] = (), plain: tuple[Any, ...] = ()) -> None:
        """`plain`: instead of links, the plain entries of a single pair of brackets. They are only parsed when needed."""
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
        """Return this expression with brackets [key] added.

        Masks are read; on a GPU, this synchronises. Raises IndexError, ValueError and OverflowError for entries that NumPy
        refuses for every array; TypeError for placeholders of masks.
        """
        items = key if isinstance(key, tuple) and not is_placeholder(key) else (key,)
        if items and not self._parsed and not self._plain and is_plain(items):
            return IndexExpression((), items)
        return IndexExpression((*self._links, _brackets(items)))

    def take_along_axis(self, indices: Any, axis: int | None = -1) -> IndexExpression:
        """Return this expression with `numpy.take_along_axis` added: the elements at `indices` along `axis`.

        `indices`: an integer array of data's rank, broadcast with data along the other dimensions; or a placeholder. `axis`: an
        integer; None flattens the data first, which is an extra step. Raises like brackets.

        >>> dg.index.take_along_axis([[1], [0]], axis=1)(np.array([[1, 2], [3, 4]])).tolist()
        [[2], [3]]
        """
        if axis is None:
            return self.reshape(-1).take_along_axis(indices, 0)
        return IndexExpression((*self._links, TakenAlong(_parsed(0, indices, parse_integer_array), axis)))

    def take(self, indices: Any, axis: int | None = None, mode: str = "raise") -> IndexExpression:
        """Return this expression with `numpy.take` added: the elements at `indices` along `axis`.

        `indices`: an array of integers, or of bools, which count as 0 and 1; any shape; or a placeholder. `axis`: an integer;
        None flattens the data first. `mode`: rule for an index out of range. "raise" works like brackets: negative indices
        count from the end, and other indices out of range raise an IndexError. "clip" takes the first element for negative
        indices, and the last for too large ones. "wrap" takes indices modulo the size; the remainders are computed on the
        data's device.

        A call with mode "clip" or "wrap" takes no `out_of_bounds` and has no descriptor; with "wrap", it has no problem or plan.
        Raises ValueError for another mode, TypeError for indices of another type.

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
        """Return this expression with NumPy's `transpose` added. `axes`: several arguments or one sequence; reversed by default.

        >>> dg.index[:, [1, 0]].transpose(1, 0)(np.array([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
        """
        return IndexExpression((*self._links, Transposed(unpacked(axes) if axes else None)))

    def reshape(self, *shape: Any, order: str | None = "C", copy: bool | None = None) -> IndexExpression:
        """Return this expression with NumPy's `reshape` added.

        `shape`: several arguments or one sequence; one size may be -1; None keeps the shape. `order`: "C" or None for row-major
        order; "F" for column-major order, which adds three steps. `copy`: None or True; the result is always a new array.

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
        """Return the problems of the steps for data `x`. The data of each is the output of the one before.

        `x`: an array, anything with `shape` and `dtype`, or a pair (shape, dtype). Raises IndexError, ValueError and TypeError
        like NumPy.

        >>> [str(problem.output) for problem in dg.index[:, [2, 0]][0].problems(((4, 3, 5), "float32"))]
        ['float32 [4, 2, 5]', 'float32 [2, 5]']
        """
        return self._caches.problems(type_of("x", x))

    def problem(self, x: Any) -> Problem:
        """Return the only problem of `problems`. Raises ValueError if there are several.

        >>> dg.index[:, [2, 0, 2], ::-1].problem(((4, 3, 5), "float32")).output.shape
        (4, 3, 5)
        """
        if len(self._links) != 1:
            raise ValueError(f"{self} has {len(self._links)} steps: call problems(x), or fused(x)")
        return self.problems(x)[0]

    @cached_property
    def indices(self) -> tuple[Any, ...]:
        """The index tensors of the steps that have one, for `fused` and for a descriptor's IndicesTensor.

        An index tensor is the index array of shape [i…]; or several, broadcast to [i…] and stacked to [i…, arrays]. A mask stands
        for the arrays `mask.nonzero()`. Raises TypeError for placeholders, IndexError for arrays that cannot be broadcast.

        >>> dg.index[[[0], [1]], :, [2, 3]].indices[0].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        return self._indices_in(CPU)

    def fused(self, x: Any, *, out_of_bounds: str | Fill | None = None) -> Fused:
        """Return the steps for data like `x`, fused into as few launches as possible. The inputs are the data and `indices`.

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

        `x`: any type of whole bytes; strings on the CPU. `out`: an array that is written and returned. `out_of_bounds`: policy
        for index arrays; None for NumPy's IndexError, else "clamp", "raise", "promise" or a Fill. `device`: None for the arrays'
        device; else "cpu", "cuda", "cuda:N" or "reference". `stream`: a stream of the GPU.

        Raises the errors of NumPy; TypeError for placeholders of index arrays, and for arrays on several devices; ValueError for
        an `out` of another shape, or that overlaps an input.

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
        """Return the plan over packed arrays. Raises ValueError if the steps do not fuse into one plan.

        Arguments are those of `problems` and of the call.

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
        """Return the DirectML descriptor of the expression for data `x`, or a report of why it has none. `x`: see `problems`.

        Returns one descriptor, or a tuple of descriptors in the order of execution if one is not enough or there are several
        steps. If there is none, returns a Report, whose findings name a broken rule of NumPy, an index out of range, or a limit
        of the level (`docs/expressing.md`). Raises ValueError for an unknown level.

        >>> desc = dg.index[:, ((3,), "int64")].to_directml(((4, 10), "float32"))
        >>> desc.operator.name, desc.axis, desc.output_tensor.sizes
        ('GATHER', 1, (4, 3))
        """
        feature_level, data = FeatureLevel.parse(level), type_of("x", x)
        result = list[OperatorDesc]()
        for number in range(len(self._links)):
            descriptors = self._descriptors_of(number, data, feature_level)
            if isinstance(descriptors, Report):
                return descriptors
            result += descriptors
        return result[0] if len(result) == 1 else tuple(result)

    def differences(self, x: Any) -> tuple[Finding, ...]:
        """Return warnings EXP201 about the indices that raise an IndexError in NumPy, while DirectML reads an element.

        Index arrays with known values have no warnings: `to_directml` checks them. Raises like `problems`.

        >>> [finding.expected for finding in dg.index[:, ((3,), "int64")].differences(((4, 10), "float32"))]
        ['indices from -10 to 9']
        """
        if first_with_mode(self._links) is not None:
            return ()
        pairs = zip(self._links, self.problems(x), strict=True)
        unknown = (problem for link, problem in pairs if _known_indices(link) is None)
        return tuple(finding for problem in unknown for finding in EXPORTER.differences(problem))

    def _policy(self, out_of_bounds: str | Fill | None, data: TensorType) -> Policy | None:
        """Return the policy of `out_of_bounds`; None for the steps' policies. Raise ValueError for a policy beside a mode."""
        if out_of_bounds is None:
            return None
        if (link := first_with_mode(self._links)) is not None:
            raise ValueError(
                f"out_of_bounds is given, but {link} has a mode, which is also a rule for indices out of range: leave one out"
            )
        return resolve_policy(out_of_bounds, OutOfBounds.RAISE, data.dtype)

    def _fast_call(self, x: Any, out: Any) -> Any:
        """Run plain brackets by the cached call for their key. Return None if the slow path is needed."""
        keyed = call_key(self._plain, x, out)
        if keyed is None:
            return None
        key, call_arrays = keyed
        cached = known(IndexExpression, key)
        if not cached:
            call = prepare(lambda data: self._caches.problems(data)[0], call_arrays)
            rekeyed = call_key(self._plain, x, out)
            if call is None or rekeyed is None or rekeyed[0] != key:  # an array was changed in between
                return None
            cached[:] = repeats(call, call_arrays)
        return cached[0](call_arrays) if cached else None

    @cached_property
    def _caches(self) -> _Caches:
        form = Form.of(self._links)
        try:
            return _caches_of(form)
        except TypeError:  # a slice's bound, an axis or a size is not hashable
            return _Caches(form.links)

    def _descriptors_of(self, number: int, data: TensorType, level: FeatureLevel) -> Descriptors | Report:
        """Return the descriptors of one step, or a report of why it has none."""
        if (link := first_with_mode(self._links)) is not None:
            return mode_report(link, level)
        descriptors = EXPORTER.to_directml(lambda: self.problems(data)[number], level, "NumPy", "index")
        indices = _known_indices(self._links[number])
        with suppress(IndexError, ValueError, TypeError):  # already in the report
            finding = None if indices is None else out_of_range(self.problems(data)[number], indices)
            if finding is not None:
                others = descriptors.findings if isinstance(descriptors, Report) else ()
                return Report(subject="NumPy index", level=level, findings=(finding, *others))
        return descriptors if isinstance(descriptors, Report | tuple) else (descriptors,)

    def _indices_for_call(self, x: Any, device: str | None, stream: Any) -> tuple[Any, ...]:
        """Return `indices` for a call. Indices on the host are moved once to each GPU on which the expression runs."""
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
        links = tuple(link for link in self._links if isinstance(link, Brackets | TakenAlong) and link.looks_up)
        if any(link.has_placeholder for link in links):
            raise TypeError(f"{self} has a placeholder for an index array: write the array itself to run it")
        return tuple(_moved_indices(link, memory) for link in links)

    @cached_property
    def _moved(self) -> dict[Device, tuple[Any, ...]]:
        """Copies of `indices`, by GPU."""
        return {}


@lru_cache(CACHED_EXPRESSIONS)
def _caches_of(form: Form) -> _Caches:
    return _Caches(form.links)


def _problems(links: tuple[Link, ...], data: TensorType) -> tuple[Problem, ...]:
    return problems(_not_empty(links), data)


def _not_empty(links: tuple[Link, ...]) -> tuple[Link, ...]:
    if not links:
        raise ValueError("dg.index has no steps: write brackets behind it, dg.index[…]")
    return links


def _fused(links: tuple[Link, ...], data: TensorType, policy: Policy | None) -> Fused:
    return fuse(graph_of(_not_empty(links), data, policy))


def _fused_for_array(fused: Callable[..., Fused], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Fused:
    return fused(type_of("x", (shape, dtype)), None)


def _known_indices(link: Link) -> np.ndarray[Any, Any] | None:
    """Return the indices of a step if they are on the host; else None."""
    if not isinstance(link, Brackets | TakenAlong) or not link.looks_up or link.has_placeholder:
        return None
    with suppress(IndexError):
        if all(isinstance(array, np.ndarray) for array in link.arrays):
            indices: np.ndarray[Any, Any] = link.indices(link.arrays)
            return indices
    return None


def _moved_indices(link: Brackets | TakenAlong, memory: Device) -> Any:
    """Return the indices of a step: on the GPU of its index arrays, or in `memory` if these are on the host.

    Raises TypeError for index arrays on several GPUs.
    """
    moved, home = arrays.together(link.arrays, memory)
    with home.current():
        indices = link.indices(moved)
    return arrays.move(indices, arrays.home_of(indices), home)


def _brackets(items: Sequence[Any]) -> Brackets:
    return Brackets(tuple(_parsed(number, item, partial(parse_entry, number)) for number, item in enumerate(items)))


def _parsed(number: int, item: Any, parse: Callable[[Any], ParsedEntry]) -> ParsedEntry:
    """Return `parse` of an entry. Arrays of other libraries are first adopted as NumPy's or CuPy's, on their device."""
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
        if index_array is not array:  # computed from a mask: wait, as later calls may read it on any stream
            arrays.wait(index_array)
    return entry


index = IndexExpression()
"""The empty index expression: `dg.index[:, ids, ::-1](x)` returns x[:, ids, ::-1]."""
