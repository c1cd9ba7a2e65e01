"""Integers at the ends of their types, and programs that are too large or too deep: there is always an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.equivalence import decide, meaning, parts
from dmlgather.equivalence.evaluation import OpaqueOutputs, Origins, evaluate
from dmlgather.equivalence.parts import PartMaker, strided_sums
from dmlgather.equivalence.symbols import Leaves, SymbolicTensor
from dmlgather.equivalence.tables import Tables, grid
from tests import seeds
from tests.equivalence.making import Program, do, graph, ids, lax_take, number, typed


def negated(b: GraphBuilder, x: str) -> str:
    """2**64 - x in uint64, which no table of int64 holds."""
    return do(
        b, "cast", do(b, "negative", do(b, "cast", do(b, "add", x, number(b, 127, "uint8")), dtype="uint64")), dtype="uint8"
    )


def selected(b: GraphBuilder, x: str, y: str) -> str:
    return do(b, "where", do(b, "cast", x, dtype="bool"), number(b, [1.5, 2, 7], "float32"), y)


def largest(b: GraphBuilder, x: str) -> str:
    return do(b, "equal", do(b, "cast", x, dtype="uint64"), number(b, 2**64 - 1, "uint64"), dtype="bool")


@pytest.mark.parametrize(
    ("program", "types"),
    [(negated, [ids(3, dtype="uint8")]), (selected, [ids(3), typed(3)]), (largest, [ids(3, dtype="int8")])],
)
def test_known_elements_that_are_no_int64_are_followed(program: Program, types: list[object]) -> None:
    assert decide(graph(program, *types), graph(program, *types)).verdict == "proven"  # type: ignore[arg-type]


def test_the_largest_of_uint64_is_not_below_0() -> None:
    ends = decide(
        graph(lambda b, x: do(b, "minimum", x, do(b, "cast", number(b, [-1, -1, -1]), dtype="uint64")), typed(3, dtype="uint64")),
        graph(lambda b, x: x, typed(3, dtype="uint64")),
    )
    assert ends.verdict != "different"


def added(times: int) -> Program:
    """Reads each value twice, so that the formula would double at each step."""

    def program(b: GraphBuilder, i: str) -> str:
        for step in range(times):
            i = do(b, "add", do(b, "multiply", i, i), do(b, "minimum", i, number(b, step)))
        return i

    return program


def test_arithmetic_that_reads_each_value_twice_is_cut_into_leaves() -> None:
    assert decide(graph(added(40), ids(2)), graph(added(40), ids(2))).verdict == "proven"


def test_nested_selections_take_time_that_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is computed a few times, however deep it lies, and what depends on inputs is never searched for known elements."""
    done = Counter[str]()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            done[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(meaning, "computed", counted("steps", meaning.computed))
    monkeypatch.setattr(PartMaker, "parts", counted("parts", PartMaker.parts))

    def program(b: GraphBuilder, x: str, *masks: str) -> str:
        for mask in masks:
            x = do(b, "where", mask, b.input(f"other of {mask}", typed(6)), x)
        return x

    names = [f"mask {number}" for number in range(40)]
    one, other = (graph(program, typed(6), *[typed(6, dtype="bool")] * 40, names=["x", *names]) for _ in range(2))
    assert decide(one, other).verdict == "proven"
    assert done["steps"] <= 4 * 2 * 40
    assert done["parts"] == 0


def turned(b: GraphBuilder, x: str) -> str:
    """Views that strides cannot say together: what moves is known as a table of positions."""
    for shape in ((4, 5, 6), (6, 20), (15, 8), (3, 8, 5)):
        view = b.reshaped("reshape", x, shape)
        x = b.transposed("turn", view, tuple(reversed(range(len(shape)))))
    return b.reshaped("flat", x, (120,))


def test_positions_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both programs have the same steps, so that each table is made once."""
    done = Counter[SymbolicTensor]()
    evaluated = PartMaker._evaluated

    def counted(maker: PartMaker, tensor: SymbolicTensor) -> SymbolicTensor:
        done[tensor] += 1
        return evaluated(maker, tensor)

    monkeypatch.setattr(PartMaker, "_evaluated", counted)
    assert decide(graph(turned, typed(120)), graph(turned, typed(120))).verdict == "proven"
    assert max(done.values()) == 1
    assert len(done) <= 10


def test_a_run_keeps_what_is_still_read() -> None:
    program = graph(turned, typed(120))
    data = np.arange(120, dtype=np.float32)
    run = evaluate(program, [data], OpaqueOutputs(0, {}), origins=Origins(), numbers=[0])
    assert set(run.values) == set(run.tags) == set(program.outputs)
    expected: NDArray[np.float32] = data
    for shape in ((4, 5, 6), (6, 20), (15, 8), (3, 8, 5)):
        expected = expected.reshape(shape).T
    assert run.values[program.outputs[0]].tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [1, 2, 12, 97, 360, 1024])
def test_periods_are_divisors(count: int) -> None:
    assert parts._divisors(count) == [each for each in range(1, count + 1) if count % each == 0]


@pytest.mark.parametrize("period", [1, 3, 4, 6, 12])
def test_every_period_of_a_table_is_found(period: int) -> None:
    once = seeds.numpy_rng().permutation(100)[:period] * 1000
    numbers = np.concatenate([once + 7 * repeat for repeat in range(12)])
    tables = Tables(Leaves())
    sizes, (found,) = strided_sums(tables, [numbers])
    values = tables.known(found, grid(sizes))
    assert values is not None
    assert np.broadcast_to(values, sizes).reshape(-1).tolist() == numbers.tolist()
    assert max((array.size for array in tables.leaves.integers.values()), default=1) <= period


def test_lookups_in_lookups_end_with_an_answer() -> None:
    def program(b: GraphBuilder, i: str) -> str:
        for _ in range(100):
            i = lax_take(b, i, i)
        return i

    assert decide(graph(program, ids(4)), graph(lambda b, i: i, ids(4))).verdict in ("different", "not proven")


def test_programs_that_are_too_large_are_not_run() -> None:
    large = ids(2**40)
    one, other = (graph(lambda b, x, n=n: do(b, "add", x, number(b, n)), large) for n in (1, 2))
    found = decide(one, other)
    assert found.verdict == "not proven"
    assert "too large to be run" in found.reason
