"""What is said of the cause of a mismatch: the fault that was planted, and never another."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from tests.comparing.planted import FAULTS, Planted, output_packed

SEEDS = st.integers(0, 2**63 - 1)


def faults(one: Planted) -> Any:
    """The faults that are named, and the difference; None where the planted fault changes nothing."""
    options: Any = {"out_of_bounds": one.out_of_bounds, "buffers": one.buffers}
    found = dg.compare(one.desc, *one.inputs, devices=("cpu",), against=one.wrong, **options)
    return found.differences[0] if found.differences else None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_the_planted_fault_is_named(fault: Any, seed: int) -> None:
    one = fault(np.random.default_rng(seed))
    difference = faults(one)
    if difference is None:
        return
    words = [each.as_if for each in difference.faults]
    # The evidence, counted anew: distinct values that were found, each as rare as a 64th of the input.
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
    if np.unique(np.ascontiguousarray(one.wrong).view(pattern)[differing]).size >= 8:
        assert one.words in words
    assert not words or one.words in words, (words, one.words)
    assert len(words) <= 3
    for each in difference.faults:
        assert (each.device, each.looked_at) == ("against", difference.differing)
        everything = fault is not output_packed  # which says nothing of what lies behind the packed elements
        assert each.explains >= each.looked_at * (1 if everything and one.words == each.as_if else 0.45)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS)
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
