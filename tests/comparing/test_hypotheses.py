"""What is said of the cause of a mismatch: the fault that was planted, and never another."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.backends import reference
from dmlgather.comparing.comparison import tracer
from dmlgather.comparing.differences import LOOKED_AT
from tests import seeds
from tests.comparing.planted import FAULTS, Planted, output_packed
from tests.dialects import drafting
from tests.directml.buffers import documented
from tests.strategies import Problem, problems


def faults(one: Planted) -> Any:
    """The faults that are named, and the difference; None where the planted fault changes nothing."""
    options: Any = {"out_of_bounds": one.out_of_bounds, "buffers": one.buffers}
    found = dg.compare(one.desc, *one.inputs, devices=("cpu",), against=one.wrong, **options)
    return found.differences[0] if found.differences else None


def gathered(rows: NDArray[Any], index: NDArray[Any], wrong: NDArray[Any], axis: int = 0) -> dg.Comparison:
    """A gather compared with elements from elsewhere."""
    desc = dg.GatherOperatorDesc.of(rows, index, axis)
    return dg.compare(desc, rows, index, devices=("cpu",), against=wrong.reshape(desc.output_tensor.sizes))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@settings(max_examples=25, deadline=None)
@given(seed=drafting.seeds)
def test_the_planted_fault_is_named(fault: Any, seed: int) -> None:
    one = fault(np.random.default_rng(seed))
    difference = faults(one)
    if difference is None:
        return
    words = [each.as_if for each in difference.faults]
    # The evidence, counted anew: distinct values that were found, of an input of 64 elements or more.
    expected = dg.compile(one.desc, out_of_bounds=one.out_of_bounds)
    right = np.empty(one.wrong.shape, one.wrong.dtype)
    if one.buffers:
        raw = np.zeros(one.desc.output_tensor.total_bytes, np.uint8)
        expected.run_buffers(*one.inputs, out=raw)
        right[...] = raw[: right.nbytes].view(right.dtype).reshape(right.shape)
    else:
        right[...] = expected(*one.inputs)
    pattern = f"u{right.itemsize}"
    differing = np.ascontiguousarray(one.wrong).view(pattern) != right.view(pattern)
    assert difference.differing == differing.sum()
    found = np.ascontiguousarray(one.wrong).view(pattern)[differing]
    foreign = found.itemsize >= 2 and found.size >= 2 and not np.isin(found, one.inputs[0].view(pattern)).any()
    if np.unique(found).size >= 8 or foreign:  # of elements that the input lacks, two are enough
        assert one.words in words
    assert not words or one.words in words, (words, one.words)
    assert len(words) <= 3
    for each in difference.faults:
        assert (each.device, each.looked_at) == ("against", difference.differing)
        everything = fault is not output_packed  # which says nothing of what lies behind the packed elements
        assert each.explains >= each.looked_at * (1 if everything and one.words == each.as_if else 0.45)


@settings(max_examples=150, deadline=None)
@given(seed=drafting.seeds)
def test_nothing_is_named_for_another_fault(seed: int) -> None:
    """Bits that flip anywhere, values of another table, and few values that many faults would give."""
    rng = np.random.default_rng(seed)
    one = FAULTS[int(rng.integers(len(FAULTS)))](rng)
    data = one.inputs[0]
    kind = one.wrong.dtype
    if rng.random() < 0.5 and kind.itemsize > 1:
        noise = rng.bytes(one.wrong.nbytes)
        wrong = np.frombuffer(noise, kind).reshape(one.wrong.shape)
        difference = faults(dataclasses.replace(one, wrong=wrong))
    elif not one.buffers:
        few = rng.integers(0, 2, data.shape).astype(kind)
        wrong = rng.integers(0, 2, one.wrong.shape).astype(kind)
        difference = faults(dataclasses.replace(one, inputs=(few, *one.inputs[1:]), wrong=wrong))
    else:
        return
    assert difference is None or not difference.faults, difference.faults


@settings(max_examples=150, deadline=None)
@given(problems())
def test_expected_elements_are_as_documented(problem: Problem) -> None:
    desc = problem.desc
    operator = dg.compile(desc, device="cpu")
    tensor = desc.tensor("output_tensor")
    expected = documented(desc, problem.inputs)
    run = tracer(operator, problem.inputs, buffers=True).run
    found = run.at(np.arange(expected.size)).right.reshape(tensor.sizes)
    assert found.tobytes() == expected.tobytes()


def test_most_of_the_elements_are_enough() -> None:
    rng = np.random.default_rng(seeds.seed())
    rows, index = rng.integers(0, 2**63, (50, 10)), rng.integers(0, 49, 100)
    for noise, said in ((4, "960 of 1000 (96%) are on against as if the index along dimension 0 were 1 higher"), (20, None)):
        wrong = rows[index + 1]
        wrong[:noise] = rng.integers(0, 2**63, (noise, 10))
        (difference,) = gathered(rows, index, wrong).differences
        assert [*map(str, difference.faults)] == ([said] if said else [])


def test_faults_that_look_alike_are_named_together() -> None:
    """Of two rows, the one before and the one behind are the same."""
    rows = np.arange(64, dtype=np.int32).reshape(2, 32)
    lines = str(gathered(rows, np.array([1, 0, 1]), rows[[0, 1, 0]])).splitlines()
    assert [line.split(" as if ")[1] for line in lines if " as if " in line] == [
        f"the index along dimension 0 were 1 {how}" for how in ("higher", "lower")
    ]
    assert [line[:7] for line in lines[-2:]] == ["  cause", "  or: a"]


def test_right_elements_tell_hypotheses_apart() -> None:
    """Zeros that were not written would be anywhere; these are where indices are out of range, and nowhere else."""
    rows = np.arange(1, 41, dtype=np.float32).reshape(10, 4)
    index = np.array([3, 12, 9, -11, 0, 30])
    wrong = rows[[3, 0, 9, 0, 0, 0]]
    wrong[[1, 3, 5]] = 0
    (fault,) = gathered(rows, index, wrong).differences[0].faults
    assert (fault.as_if, fault.contradicted, fault.equal_looked_at) == ("an index out of range gave 0", 0, 12)


@pytest.mark.parametrize("step", [1, -2, 64])
def test_rows_that_the_output_was_moved_out_of_may_hold_anything(step: int) -> None:
    rng = np.random.default_rng(seeds.seed())
    rows, index = rng.integers(0, 2**63, (300, 4)), rng.permutation(300)[:200]
    wrong = np.roll(rows[index], step, 0)
    wrong[slice(step) if step > 0 else slice(step, None)] = rng.integers(0, 2**63, (abs(step), 4))
    (difference,) = gathered(rows, index, wrong).differences
    (fault,) = difference.faults
    assert fault.as_if == f"OutputTensor were moved by {step} along dimension {wrong.ndim - 2}"
    assert fault.explains == 4 * (200 - abs(step))


def test_a_large_mismatch_takes_little_memory() -> None:
    """Some of the elements are looked at, and the counts of all are right."""
    rng = np.random.default_rng(seeds.seed())
    rows = rng.integers(0, 2**32, (4096, 512), np.uint32)
    index = rng.integers(0, 4095, 4096)
    wrong = rows[index + 1]
    wrong[::3] = rows[index[::3]]
    tracemalloc.start()
    try:
        found = gathered(rows, index, wrong)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (difference,) = found.differences
    assert difference.differing == int((wrong != rows[index]).sum())
    (fault,) = difference.faults
    assert (fault.as_if, fault.explains, fault.looked_at) == ("the index along dimension 0 were 1 higher", LOOKED_AT, LOOKED_AT)
    assert fault.contradicted > 0.9 * fault.equal_looked_at > 0
    assert str(fault).startswith(f"all {LOOKED_AT} that were looked at are on against as if {fault.as_if}; not everywhere: ")
    assert peak < rows.nbytes * 4, peak


def test_a_pair_of_many_dimensions_may_be_exchanged() -> None:
    """Each dimension, and each pair of them, is tried, here with the input's memory exchanged."""
    data = np.arange(2**8 * 9, dtype=np.int32).reshape(2, 2, 2, 2, 2, 2, 6, 6)
    index = np.array([1, 0])
    read = data.reshape(2, 6, 2, 2, 2, 2, 2, 6).swapaxes(1, 6)
    found = gathered(data, index, np.take(read, index, 7), 7)
    assert [each.as_if for each in found.differences[0].faults] == ["InputTensor lay in memory with dimensions 1 and 6 exchanged"]


def test_the_first_device_may_be_the_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(40, dtype=np.int16).reshape(10, 4)
    index = np.array([1, 5, 3, 8, 0, 2])
    desc = dg.GatherOperatorDesc.of(data, index, 0)
    honest = reference.run
    monkeypatch.setattr(reference, "run", lambda plan, data, indices, out: honest(plan, data, indices + 1, out))
    (difference,) = dg.compare(desc, data, index, devices=("reference", "cpu")).differences
    (fault,) = difference.faults
    assert (fault.device, fault.as_if) == ("reference", "the index along dimension 0 were 1 higher")
