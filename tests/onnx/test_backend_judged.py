"""Random models through the backend and through onnxruntime, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from dmlgather.onnx import Backend
from tests.dialects.outcomes import content
from tests.onnx.judge import session
from tests.onnx.random_models import random_model


def by_onnxruntime(model: ModelProto, feeds: dict[str, np.ndarray[Any, Any]]) -> list[object]:
    return list(map(content, session(model.SerializeToString(), optimised=True).run(None, feeds)))


@pytest.mark.slow
@settings(max_examples=250)
@given(seed=st.integers(0, 2**63))
def test_random_models(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    prepared = Backend.prepare(model)
    expected = by_onnxruntime(model, feeds)
    before = {name: array.tobytes() for name, array in feeds.items()}
    assert list(map(content, prepared.run(feeds))) == expected
    assert list(map(content, prepared.run(list(feeds.values())))) == expected
    assert {name: array.tobytes() for name, array in feeds.items()} == before


@settings(max_examples=50)
@given(seed=st.integers(0, 2**63))
def test_random_models_on_the_reference(seed: int) -> None:
    model, feeds = random_model(seed)
    assume(model.graph.output)
    assert list(map(content, Backend.run_model(model, feeds, "REFERENCE"))) == by_onnxruntime(model, feeds)
