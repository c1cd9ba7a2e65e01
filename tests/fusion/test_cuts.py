"""Limits of fusing: the smallest graph for each reason, and a similar graph that is fused."""

from __future__ import annotations

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.calls.eager import execute
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.planned import Planned
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.fusion import Fused, fuse
from dmlgather.plan import OutOfBounds
from tests.fusion.random_graphs import gathering

FLOATS = TensorType((6, 8), np.dtype(np.float32))
CLAMP, FILL, RAISE = OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE


class Graph(GraphBuilder):
    """A builder with data "x" and indices "i" (4 of int64)."""

    def __init__(self, index_type: str = "int64") -> None:
        super().__init__()
        self.x = self.input("x", FLOATS)
        self.i = self.input("i", TensorType((4,), np.dtype(index_type)))

    def gathered(self, name: str, value: str, indices: str, axis: int = 0, *, policy: OutOfBounds = CLAMP, fill: int = 0) -> str:
        problem = gathering(self.types[value], self.types[indices], axis, policy, wraps=False, fill=bytes([fill]) * 4)
        return self.problem(name, problem, value, indices)

    def cropped(self, name: str, value: str, count: int = 2) -> str:
        tensor = self.types[value]
        return self.problem(name, SliceView(tensor, (Window(0, count, 1), *map(Window.whole, tensor.shape[1:]))), value)

    def fused(self, *outputs: str, **options: object) -> Fused:
        return fuse(self.build(outputs), **options)  # type: ignore[arg-type] # options of `fuse`


def codes(fused: Fused) -> list[tuple[str, str, str]]:
    return [(cut.maker, cut.reader, cut.code) for cut in fused.cuts]


def test_a_gather_with_two_readers_is_not_fused() -> None:
    graph = Graph()
    rows = graph.gathered("rows", graph.x, graph.i)
    first, second = graph.cropped("first", rows), graph.transposed("second", rows, (1, 0))
    fused = graph.fused(first, second)
    assert codes(fused) == [("rows", "first", "another consumer"), ("rows", "second", "another consumer")]
    assert fused.cuts[0].reason == "'rows' is read by second as well"
    assert len(fused.launches) == 3
    assert len(graph.fused(first).launches) == 1


def test_a_view_is_fused_into_each_of_its_readers() -> None:
    graph = Graph()
    turned = graph.transposed("turned", graph.x, (1, 0))
    first, second = graph.cropped("first", turned), graph.gathered("second", turned, graph.i)
    fused = graph.fused(first, second)
    assert [launch.holds for launch in fused.launches] == [("turned", "first"), ("turned", "second")]
    fused = graph.fused(first, second, graph.concatenated("both", [turned, turned], 0))
    assert codes(fused) == [("turned", "first", "another consumer"), ("turned", "second", "another consumer")]


def test_outputs_and_kept_values_are_not_fused_away() -> None:
    graph = Graph()
    rows = graph.gathered("rows", graph.x, graph.i)
    first = graph.cropped("first", rows)
    assert codes(graph.fused(rows, first)) == [("rows", "first", "output")]
    fused = graph.fused(first, keep=[rows])
    assert codes(fused) == [("rows", "first", "kept")]
    assert fused.kept == ("rows",)
    assert {*fused.run({"x": np.zeros((6, 8), np.float32), "i": np.arange(4)})} == {"first", "rows"}
    assert dg.fuse(graph.build([first]), keep=rows).kept == ("rows",)
    with pytest.raises(ValueError, match="keep names 'nothing', which is no value of the graph: its values are 'x', 'i', 'rows'"):
        graph.fused(first, keep=["nothing"])
    for wrong in (None, 3, [3], [["rows"]]):
        with pytest.raises(TypeError, match=r"keep is .*, expected the name of a value, or a list of names"):
            graph.fused(first, keep=wrong)


def test_data_that_is_also_the_indices_is_not_fused_away() -> None:
    builder = GraphBuilder()
    numbers = builder.input("n", TensorType((2, 2), np.dtype("int64")))
    flat = builder.reshaped("flat", builder.transposed("turned", numbers, (1, 0)), (4,))
    own = builder.problem("own", gathering(builder.types[flat], builder.types[flat], 0, CLAMP, wraps=False), flat, flat)
    fused = fuse(builder.build([own]))
    assert fused.cuts[0].code == "another consumer"
    assert fused.cuts[0].reason == "'flat' is its data and its indices"
    values = np.array([[3, 1], [2, 0]])
    assert fused(values).tolist() == values.T.reshape(4)[values.T.reshape(4)].tolist()


def test_two_index_tensors_are_joined_if_that_saves_bytes() -> None:
    graph = Graph()
    few, many = graph.i, graph.input("many", TensorType((400,), np.dtype("int64")))
    rows = graph.gathered("rows", graph.x, few)
    columns = graph.gathered("columns", rows, few, axis=1)
    assert codes(graph.fused(columns)) == [], "the same index tensor"
    other = graph.gathered("other", rows, graph.input("j", TensorType((4,), np.dtype("int32"))), axis=1)
    fused = graph.fused(other)
    assert codes(fused) == [], "joined"
    assert [step.name for step in fused.graph.steps] == ["j as int64", "i and j joined", "other"]
    assert codes(graph.fused(other, join=False)) == [("rows", "other", "two index tensors")]
    wide = graph.gathered("wide", rows, many, axis=1)
    (cut,) = graph.fused(wide).cuts
    assert cut.reason == (
        "the steps look up 'i' and 'many', but a plan looks up one index tensor, "
        "and joining them would move 6464 bytes, to save 256"
    )
    unsigned = graph.gathered("unsigned", rows, graph.input("u", TensorType((1,), np.dtype("uint64"))), axis=1)
    (cut,) = graph.fused(unsigned).cuts
    assert cut.reason.endswith("and no integer type holds the values of both")


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ((CLAMP, 0), (CLAMP, 0), CLAMP),
        ((CLAMP, 0), (OutOfBounds.PROMISE, 0), CLAMP),
        ((OutOfBounds.PROMISE, 0), (CLAMP, 0), CLAMP),
        ((OutOfBounds.PROMISE, 0), (OutOfBounds.PROMISE, 0), OutOfBounds.PROMISE),
        ((FILL, 1), (FILL, 1), FILL),
        ((RAISE, 0), (RAISE, 0), RAISE),
        ((FILL, 1), (FILL, 2), None),
        ((CLAMP, 0), (FILL, 0), None),
        ((FILL, 0), (CLAMP, 0), None),
        ((RAISE, 0), (CLAMP, 0), None),
        ((FILL, 0), (RAISE, 0), None),
    ],
)
def test_policies_are_merged_only_if_compatible(
    first: tuple[OutOfBounds, int], second: tuple[OutOfBounds, int], merged: OutOfBounds | None
) -> None:
    graph = Graph()
    rows = graph.gathered("rows", graph.x, graph.i, 0, policy=first[0], fill=first[1])
    fused = graph.fused(graph.gathered("columns", rows, graph.i, 1, policy=second[0], fill=second[1]))
    if merged is None:
        assert codes(fused) == [("rows", "columns", "two policies")]
    else:
        (launch,) = fused.launches
        assert launch.plan.out_of_bounds is merged


def test_fusing_never_skips_checks_of_raise() -> None:
    for policy, cuts in ((RAISE, ["unchecked indices"]), (FILL, []), (CLAMP, [])):
        graph = Graph()
        fused = graph.fused(graph.cropped("first", graph.gathered("rows", graph.x, graph.i, policy=policy)))
        assert [cut.code for cut in fused.cuts] == cuts
    graph = Graph()
    rows = graph.gathered("rows", graph.x, graph.i, policy=RAISE)
    assert codes(graph.fused(graph.transposed("turned", rows, (1, 0)))) == []
    diagonal = graph.problem("diagonal", StridedView(graph.types[rows], (4,), (9,)), rows)
    assert codes(graph.fused(diagonal)) == [], "every row is looked up for its element of the diagonal"
    nothing = graph.cropped("nothing", rows, 0)
    assert codes(graph.fused(nothing)) == [("rows", "nothing", "unchecked indices")]
    columns = graph.gathered("columns", graph.x, graph.i, 1, policy=RAISE)
    both = graph.gathered("both", columns, graph.i, policy=RAISE)
    pairs = graph.problem("pairs", StridedView(graph.types[both], (4,), (5,)), both)
    fused = graph.fused(pairs)  # both indices are looked up, although one step moves along both
    assert codes(fused) == [("both", "pairs", "unchecked indices")]


def test_indices_of_indices_are_not_fused() -> None:
    graph = Graph()
    rows = graph.gathered("rows", graph.x, graph.i)
    assert codes(graph.fused(graph.gathered("again", rows, graph.i))) == [("rows", "again", "index of an index")]
    picked = graph.gathered("picked", graph.i, graph.i)
    fused = graph.fused(graph.gathered("rows", graph.x, picked))
    assert codes(fused) == [("picked", "rows (2)", "index of an index")]


def test_indices_that_their_type_keeps_in_range_need_no_check() -> None:
    for rows, cuts in ((256, []), (255, ["unchecked indices"])):
        graph = Graph("uint8")
        x = graph.input("rows", TensorType((rows, 8), FLOATS.dtype))
        fused = graph.fused(graph.cropped("first", graph.gathered("picked", x, graph.i, policy=RAISE)))
        assert [cut.code for cut in fused.cuts] == cuts


def test_a_cast_of_indices_stays_a_step() -> None:
    graph = Graph("int32")
    wide = graph.elementwise("wide", "cast", "int64", graph.i)
    fused = graph.fused(graph.gathered("rows", graph.x, graph.transposed("turned", graph.reshaped("pair", wide, (2, 2)), (1, 0))))
    assert [step.name for step in fused.graph.steps] == ["wide", "rows"]
    assert (codes(fused), fused.bytes_moved) == ([], fused.launches[0].bytes.total + 4 * (4 + 8))


def test_a_bad_scalar_index_of_two_lookups_is_named() -> None:
    builder = GraphBuilder()
    x, i = builder.input("x", FLOATS), builder.input("i", TensorType((), np.dtype("int64")))
    row = builder.problem("row", gathering(FLOATS, builder.types[i], 0, RAISE, wraps=True), x, i)
    element = builder.problem("element", gathering(builder.types[row], builder.types[i], 0, RAISE, wraps=True), row, i)
    fused = fuse(builder.build([element]))
    (step,) = fused.graph.steps
    assert isinstance(step.work, Planned)
    assert len(step.work.packed.lookups) == 2
    with pytest.raises(IndexError, match=r"^indices\[\] = 7 is out of range for axis 0 of size 6: valid indices are -6 … 5$"):
        execute(step.work, [np.zeros((6, 8), np.float32), np.array(7)])


def test_a_reshape_without_strides_is_not_fused() -> None:
    graph = Graph()
    fused = graph.fused(graph.cropped("first", graph.reshaped("flat", graph.transposed("turned", graph.x, (1, 0)), (48,)), 7))
    assert codes(fused) == [("flat", "first", "not one walk")]


def test_a_step_that_cannot_run_is_not_fused() -> None:
    builder = GraphBuilder()
    nothing, ids = builder.input("x", TensorType((0, 2), FLOATS.dtype)), builder.input("i", TensorType((3,), np.dtype("int64")))
    turned = builder.transposed("turned", nothing, (1, 0))
    problem = gathering(builder.types[turned], builder.types[ids], 1, CLAMP, wraps=False)
    fused = fuse(builder.build([builder.problem("rows", problem, turned, ids)]))
    assert [cut.code for cut in fused.cuts] == ["cannot run"]
    with pytest.raises(ValueError, match="indexes an axis of size 0 while the output has 6 elements"):
        fused(np.empty((0, 2), np.float32), np.zeros(3, np.int64))


def test_dead_steps_are_dropped() -> None:
    graph = Graph()
    graph.gathered("dead", graph.x, graph.i, policy=CLAMP)
    fused = graph.fused(graph.transposed("turned", graph.x, (1, 0)))
    assert [step.name for step in fused.source.steps] == ["turned"]


def test_dead_steps_that_can_raise_are_kept() -> None:
    """Dead steps run once, and unread results are dropped."""
    graph = Graph()
    rows = graph.gathered("rows", graph.transposed("first", graph.x, (1, 0)), graph.i, policy=RAISE)
    graph.transposed("dead", graph.gathered("again", rows, graph.i, axis=1, policy=RAISE), (1, 0))
    fused = graph.fused(graph.transposed("turned", graph.x, (1, 0)))
    assert [step.name for step in fused.source.steps] == ["first", "rows", "again", "turned"]
    assert [launch.holds for launch in fused.launches] == [("first", "rows", "again"), ("turned",)]
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    assert fused(x, np.array([0, 5, 3, 1])).tobytes() == x.T.tobytes()
    for bad in (6, 8, -1):
        with pytest.raises(IndexError):
            fused(x, np.array([0, bad, 3, 1]))


def test_fuse_takes_a_chain_of_problems() -> None:
    views = [TransposeView(FLOATS, (1, 0)), ReshapeView(TensorType((8, 6), FLOATS.dtype), (48,))]
    assert len(dg.fuse(views).launches) == 1
    assert len(dg.fuse(views[0]).launches) == 1
    with pytest.raises(TypeError, match=r"what is of type IndexExpression, .* pass its problems\(x\)"):
        dg.fuse(dg.index[0])  # type: ignore[arg-type] # what a user may try
