"""dg.index: NumPy's spelling of what is taken from an array, run, planned, fused, and described for DirectML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from dmlgather.numpy.chain_graph import Policy, graph_of, mode_report, moded, with_policy
from dmlgather.numpy.plain_brackets import is_plain, prepared_for, read
from dmlgather.numpy.problems.links import (
    MODES,
    Brackets,
    Form,
    Link,
    Reshaped,
    TakenAlong,
    TakenByMode,
    Transposed,
    WrittenEntry,
    is_placeholder,
    listed,
    problems,
    taken_array,
    written,
    written_array,
)
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis, take_along_axis_form
from dmlgather.plan import IndexPlan, OutOfBounds

KEPT = 32
"""Types of data for which the problems and the fused steps of an expression are kept (least recently used leave first)."""

EXPRESSIONS_KEPT = 128
"""Expressions for which they are kept, of which those that differ in index arrays of the same types and shapes are one."""


# Descriptors of index expressions, or why there are none, and where DirectML and NumPy differ.


def _index_differences(problem: Problem, _: None) -> IndexDifferences | None:
    """The indices, of unknown values, for which the descriptors give elements and NumPy an IndexError."""
    if not problem.lookup_axes:
        return None
    bounds = index_bounds((problem.data.shape[axis] for axis in problem.lookup_axes), problem.tensors[1].dtype.kind == "i")
    mend = "compare the indices with these bounds before they are bound, unless all are known to be in range"
    return IndexDifferences("indices", bounds, "an IndexError in NumPy", mend)


EXPORTER = Exporter(
    {**VIEW_FORMS, TakeAlongAxis: take_along_axis_form},
    lambda problem: f"NumPy {problem.name}",
    needed_by_indexing,
    {"data": "x"},
    _index_differences,
)


def out_of_range(problem: Problem, indices: NDArray[Any]) -> Finding | None:
    """The finding about the first index that is out of range; None where there is none. indices: their values."""
    wrong = first_out_of_range(problem, indices)
    if wrong is None:
        return None
    return CODES["EXP111"].finding(
        wrong.place,
        expected=wrong.valid.replace("data", "x"),
        got=str(wrong.value),
        remedy="correct the index: NumPy raises an IndexError for it, and DirectML reads another element",
    )


# Expressions.


class _Made:
    """What was made of steps, of whose index arrays type and shape alone are known, for data of some types."""

    def __init__(self, links: tuple[Link, ...]) -> None:
        self.problems = lru_cache(KEPT)(partial(_problems, links))
        self.fused = lru_cache(KEPT)(partial(_fused, links))
        # For arrays of NumPy and CuPy, by the type and the shape alone: a TensorType takes as long as a call.
        self.fused_at_once = lru_cache(KEPT)(partial(_fused_at_once, self.fused))


class IndexExpression:
    """What follows an array: brackets, and NumPy's take, take_along_axis, transpose and reshape. `dg.index` is the empty one.

    `dg.index[:, ids, ::-1](x)` is x[:, ids, ::-1]. An entry between the brackets is what NumPy takes: an integer, a slice, `...`,
    None, a list or array of integers, a mask. An index array may be replaced by a placeholder, a pair (shape, dtype), where only
    a plan or a descriptor is wanted. Several steps are a chain, which runs fused.

    Index arrays are kept, not copied, and masks are read at once: leave both unchanged as long as the expression is in use.

    >>> ids = np.array([2, 0])
    >>> dg.index[:, ids, ::-1](np.arange(12).reshape(2, 3, 2)).tolist()
    [[[5, 4], [1, 0]], [[11, 10], [7, 6]]]
    >>> dg.index[:, ids][..., ::2].transpose(1, 0)(np.arange(12).reshape(2, 6)).tolist()
    [[2, 8]]
    """

    def __init__(self, links: tuple[Link, ...] = (), plain: tuple[Any, ...] = ()) -> None:
        """plain: in the place of links, the plain entries of the only brackets."""
        self._read, self._plain = links, plain

    @property
    def _links(self) -> tuple[Link, ...]:
        if self._plain and not self._read:
            self._read = (_brackets(self._plain),)
        return self._read

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexExpression, (self._links,)

    __iter__ = None  # list(dg.index) would ask for index[0], index[1], … without end

    def __getitem__(self, key: Any) -> IndexExpression:
        """The brackets [key] behind this expression.

        A mask is read, which waits for a GPU where it lies on one. Raises IndexError, ValueError and OverflowError for entries
        that NumPy refuses for every array; TypeError for masks that are placeholders.
        """
        items = key if isinstance(key, tuple) and not is_placeholder(key) else (key,)
        if items and not self._read and not self._plain and is_plain(items):
            return IndexExpression((), items)
        return IndexExpression((*self._links, _brackets(items)))

    def take_along_axis(self, indices: Any, axis: int | None = -1) -> IndexExpression:
        """`numpy.take_along_axis` behind this expression: along `axis`, the elements at `indices`.

        indices: an array of integers with as many dimensions as the data, broadcast with it off the axis; or a placeholder. axis:
        an integer; None for the data as one dimension, of which NumPy makes two steps. Raises as the brackets do.

        >>> dg.index.take_along_axis([[1], [0]], axis=1)(np.array([[1, 2], [3, 4]])).tolist()
        [[2], [3]]
        """
        if axis is None:
            return self.reshape(-1).take_along_axis(indices, 0)
        return IndexExpression((*self._links, TakenAlong(_written(0, indices, written_array), axis)))

    def take(self, indices: Any, axis: int | None = None, mode: str = "raise") -> IndexExpression:
        """`numpy.take` behind this expression: the elements along `axis` at `indices`.

        indices: an array of integers, of any shape, or of bools, which count as 0 and 1; or a placeholder. axis: an integer; None
        for the data as one dimension. mode: what an index out of range does. "raise" counts negative ones from the end, once, as
        brackets do, and raises an IndexError for others; "clip" takes the first element for a negative one, and the last for one
        that is too large; "wrap" takes each modulo the size, for which fused steps compute remainders where the data is.

        A call with mode "clip" or "wrap" takes no `out_of_bounds`, and there is no descriptor of it; of "wrap", no problem or
        plan. Raises ValueError for another mode, TypeError for indices of another type.

        >>> data = np.array([10, 20, 30])
        >>> [dg.index.take([-1, 4], mode=mode)(data).tolist() for mode in ("clip", "wrap")]
        [[10, 30], [30, 20]]
        """
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}, expected one of {', '.join(map(repr, MODES))}")
        if axis is None:
            return self.reshape(-1).take(indices, 0, mode)
        entry, axis = _written(0, indices, taken_array), whole("axis", axis)
        if mode != "raise":
            return IndexExpression((*self._links, TakenByMode(entry, axis, mode)))
        whole_one = WrittenEntry(slice(None))
        entries = (*[whole_one] * axis, entry) if axis >= 0 else (WrittenEntry(...), entry, *[whole_one] * (-axis - 1))
        return IndexExpression((*self._links, Brackets(entries)))

    def transpose(self, *axes: Any) -> IndexExpression:
        """NumPy's `transpose` behind this expression. axes: several arguments, or one sequence; left out or None for the reverse
        order.

        >>> dg.index[:, [1, 0]].transpose(1, 0)(np.array([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
        """
        return IndexExpression((*self._links, Transposed(listed(axes) if axes else None)))

    def reshape(self, *shape: Any, order: str | None = "C", copy: bool | None = None) -> IndexExpression:
        """NumPy's `reshape` behind this expression. shape: as several arguments, or as one sequence; one size may be -1; None for
        the shape as it is. order: "C" or None for row-major order, "F" for column-major order, which is three steps. copy: None
        or True; the result is a new array.

        Raises TypeError without a shape; ValueError for the order "A", which depends on memory, and for `copy=False`.

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
        sizes = listed(shape)
        if order in ("F", "f") and sizes is not None:
            return self.transpose().reshape(sizes[::-1]).transpose()
        return IndexExpression((*self._links, Reshaped(sizes)))

    def __repr__(self) -> str:
        return f"dg.index{''.join(map(str, self._links))}"

    def problems(self, x: Any) -> tuple[Problem, ...]:
        """The problems for data like `x`, each of which reads what the one before it writes.

        x: an array, anything with `shape` and `dtype`, or a pair (shape, dtype). Raises IndexError, ValueError and TypeError as
        NumPy does for x[…].

        >>> [str(problem.output) for problem in dg.index[:, [2, 0]][0].problems(((4, 3, 5), "float32"))]
        ['float32 [4, 2, 5]', 'float32 [2, 5]']
        """
        return self._made.problems(type_of("x", x))

    def problem(self, x: Any) -> Problem:
        """The problem, as `problems`. ValueError where there are several.

        >>> dg.index[:, [2, 0, 2], ::-1].problem(((4, 3, 5), "float32")).output.shape
        (4, 3, 5)
        """
        if len(self._links) != 1:
            raise ValueError(f"{self} has {len(self._links)} steps: call problems(x), or fused(x)")
        return self.problems(x)[0]

    @cached_property
    def indices(self) -> tuple[Any, ...]:
        """The index tensor of each step that has one, for `fused` and for a descriptor's IndicesTensor.

        It is the index array, or several, broadcast to one shape [i…] and stacked, [i…, arrays]; those of a mask are
        `mask.nonzero()`. TypeError for placeholders, IndexError for arrays that cannot be broadcast.

        >>> dg.index[[[0], [1]], :, [2, 3]].indices[0].tolist()
        [[[0, 2], [0, 3]], [[1, 2], [1, 3]]]
        """
        return self._placed_in(CPU)

    def fused(self, x: Any, *, out_of_bounds: str | Fill | None = None) -> Fused:
        """The steps in as few launches as plans can say, for data like `x`; its inputs are data and `indices`.

        >>> len(dg.index[:, ((3,), "int64")][..., ::2].transpose(1, 0).fused(((4, 10), "float32")).launches)
        1
        """
        data = type_of("x", x)
        return self._made.fused(data, self._policy(out_of_bounds, data))

    def __call__(
        self,
        x: Any,
        *,
        out: Any = None,
        out_of_bounds: str | Fill | None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> Any:
        """x[…] and what follows, as a new array of the same kind as `x`; several steps are fused.

        x: any type of whole bytes; strings on the CPU. out: an array that is written and returned.
        out_of_bounds: what an index of an index array does: None for NumPy's own rule, an IndexError; else "clamp", "raise",
        "promise" or a Fill. device: None for where the arrays are; "cpu", "cuda", "cuda:N" or "reference". stream: of a GPU.

        Raises what NumPy raises; TypeError for placeholders in the place of index arrays, and for arrays on several devices;
        ValueError for an `out` of another shape, or that overlaps an input.

        >>> dg.index[[0, 7], ::-1](np.array([[1, 2], [3, 4]]), out_of_bounds="clamp").tolist()
        [[2, 1], [4, 3]]
        """
        if self._plain and out_of_bounds is None and device is None and stream is None:
            found = self._at_once(x, out)
            if found is not None:
                return found
        if out_of_bounds is None and arrays.is_view(x):
            fused = self._made.fused_at_once(x.dtype, x.shape)
        else:
            fused = self.fused(x, out_of_bounds=out_of_bounds)
        return fused(x, *self._indices_beside(x, device, stream), out=out, device=device, stream=stream)

    def plan(self, x: Any, *, out_of_bounds: str | Fill | None = None) -> IndexPlan:
        """The plan over packed arrays; arguments as for `problems` and the call. ValueError where several steps are not one plan.

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
        """The DirectML descriptor of x[…], or a report of why there is none; x as for `problems`.

        Returns one descriptor; a tuple, in the order in which they run, where one cannot do it, or where there are several steps;
        or a Report whose findings say which of NumPy's rules the expression breaks, that an index is out of range, or what the
        level does not take (`docs/expressing.md`). Raises ValueError for an unknown level.

        >>> desc = dg.index[:, ((3,), "int64")].to_directml(((4, 10), "float32"))
        >>> desc.operator.name, desc.axis, desc.output_tensor.sizes
        ('GATHER', 1, (4, 3))
        """
        at, data = FeatureLevel.parse(level), type_of("x", x)
        found = list[OperatorDesc]()
        for number in range(len(self._links)):
            descriptors = self._described(number, data, at)
            if isinstance(descriptors, Report):
                return descriptors
            found += descriptors
        return found[0] if len(found) == 1 else tuple(found)

    def differences(self, x: Any) -> tuple[Finding, ...]:
        """The indices for which the descriptors give elements and NumPy an IndexError: EXP201, a warning, for each step.

        There are none for index arrays of known values, which `to_directml` checks. Raises as `problems`.

        >>> [finding.expected for finding in dg.index[:, ((3,), "int64")].differences(((4, 10), "float32"))]
        ['indices from -10 to 9']
        """
        if moded(self._links) is not None:
            return ()
        pairs = zip(self._links, self.problems(x), strict=True)
        return tuple(each for link, problem in pairs if _known(link) is None for each in EXPORTER.differences(problem))

    def _policy(self, out_of_bounds: str | Fill | None, data: TensorType) -> Policy | None:
        """What a caller's choice does with indices out of bounds; None for what the steps say. ValueError beside a mode."""
        if out_of_bounds is None:
            return None
        if (taken := moded(self._links)) is not None:
            raise ValueError(f"out_of_bounds is given, but {taken} has a mode, which says the same: leave out one of both")
        return resolve_policy(out_of_bounds, OutOfBounds.RAISE, data.dtype)

    def _at_once(self, x: Any, out: Any) -> Any:
        """The result of plain brackets by what is kept for their key. None where the long way has to run."""
        found = read(self._plain, x, out)
        if found is None:
            return None
        key, given = found
        kept = known(IndexExpression, key)
        if not kept:
            call = prepared_for(lambda data: self._made.problems(data)[0], given)
            now = read(self._plain, x, out)
            if call is None or now is None or now[0] != key:  # an array was changed meanwhile
                return None
            kept[:] = repeats(call, given)
        return kept[0](given) if kept else None

    @cached_property
    def _made(self) -> _Made:
        form = Form.of(self._links)
        try:
            return _made(form)
        except TypeError:  # a bound of a slice, an axis or a size that has no hash
            return _Made(form.links)

    def _described(self, number: int, data: TensorType, level: FeatureLevel) -> Descriptors | Report:
        """The descriptors of one step, or why there are none."""
        if (taken := moded(self._links)) is not None:
            return mode_report(taken, level)
        found = EXPORTER.to_directml(lambda: self.problems(data)[number], level, "NumPy", "index")
        indices = _known(self._links[number])
        with suppress(IndexError, ValueError, TypeError):  # which are findings already
            wrong = None if indices is None else out_of_range(self.problems(data)[number], indices)
            if wrong is not None:
                others = found.findings if isinstance(found, Report) else ()
                return Report(subject="NumPy index", level=level, findings=(wrong, *others))
        return found if isinstance(found, Report | tuple) else (found,)

    def _indices_beside(self, x: Any, device: str | None, stream: Any) -> tuple[Any, ...]:
        """`indices` for a call: those of the host are moved to a GPU on which it runs, once; those of a GPU stay there."""
        if device is None and isinstance(x, np.ndarray):
            return self.indices
        memory = arrays.home_of(x) if device is None else Device.parse(device).memory
        if not memory.on_gpu:
            return self.indices
        found = self._moved.get(memory)
        if found is None:
            from dmlgather.backends.cuda.driver import preparing

            with preparing(), arrays.in_order((), stream, memory):
                found = self._placed_in(memory)
                for each in found:  # the next call may be on another stream
                    arrays.wait(each)
            self._moved[memory] = found
        return found

    def _placed_in(self, memory: Device) -> tuple[Any, ...]:
        links = tuple(self._looking_up())
        if any(link.has_placeholder for link in links):
            raise TypeError(f"{self} has a placeholder for an index array: write the array itself to run it")
        return tuple(_placed(link, memory) for link in links)

    @cached_property
    def _moved(self) -> dict[Device, tuple[Any, ...]]:
        """By the GPU."""
        return {}

    def _looking_up(self) -> Iterator[Brackets | TakenAlong]:
        return (link for link in self._links if isinstance(link, Brackets | TakenAlong) and link.looks_up)


@lru_cache(EXPRESSIONS_KEPT)
def _made(form: Form) -> _Made:
    return _Made(form.links)


def _problems(links: tuple[Link, ...], data: TensorType) -> tuple[Problem, ...]:
    return problems(_written_links(links), data)


def _written_links(links: tuple[Link, ...]) -> tuple[Link, ...]:
    if not links:
        raise ValueError("dg.index has no steps: write brackets behind it, dg.index[…]")
    return links


def _fused(links: tuple[Link, ...], data: TensorType, policy: Policy | None) -> Fused:
    return fuse(graph_of(_written_links(links), data, policy))


def _fused_at_once(fused: Callable[..., Fused], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Fused:
    return fused(type_of("x", (shape, dtype)), None)


def _known(link: Link) -> np.ndarray[Any, Any] | None:
    """The indices that a step looks up, where their values are known and lie on the host."""
    if not isinstance(link, Brackets | TakenAlong) or not link.looks_up or link.has_placeholder:
        return None
    with suppress(IndexError):
        if all(isinstance(array, np.ndarray) for array in link.arrays):
            found: np.ndarray[Any, Any] = link.indices(link.arrays)
            return found
    return None


def _placed(link: Brackets | TakenAlong, memory: Device) -> Any:
    """The indices that a step looks up: on the GPU where one of its arrays lies, without one in `memory`. TypeError for arrays on
    several GPUs.
    """
    placed, there = arrays.together(link.arrays, memory)
    with there.current():
        found = link.indices(placed)
    return arrays.move(found, arrays.home_of(found), there)


def _brackets(items: Sequence[Any]) -> Brackets:
    return Brackets(tuple(_written(number, item, partial(written, number)) for number, item in enumerate(items)))


def _written(number: int, item: Any, read: Callable[[Any], WrittenEntry]) -> WrittenEntry:
    """What `read` makes of an entry. Arrays of other libraries are read as NumPy's or CuPy's, where they lie."""
    if isinstance(item, np.generic) or type(item) is np.ndarray:
        return read(item)
    if not (isinstance(item, np.ndarray) or hasattr(item, "__dlpack__") or hasattr(item, "__cuda_array_interface__")):
        return read(item)
    try:
        array, device = arrays.adopt(item)
    except TypeError as error:
        raise TypeError(f"entry {number}: {error}") from None
    with device.current():
        entry = read(array)
    for made in entry.arrays or ():
        if made is not array:  # positions of a mask: whoever reads them, on whatever stream, finds them there
            arrays.wait(made)
    return entry


index = IndexExpression()
"""What follows an array, in NumPy's spelling: `dg.index[:, ids, ::-1](x)`."""
