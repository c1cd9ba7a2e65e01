"""Random models: true ones never have stale sizes, and what is computed beforehand is gone once onnxruntime has folded it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from dmlgather.onnx_checking.checked_model import ProviderVerdict
from tests import seeds
from tests.onnx.random_models import random_model
from tests.onnx_checking.optimising import optimised
from tests.onnx_checking.provider.asking import asked, codes, nodes_of, summary
from tests.onnx_checking.shape_graphs import random_shape_graph

V = ProviderVerdict
DRAWN = 25


def _results(model: onnx.ModelProto) -> dict[str, str]:
    """The first output of each node of the main graph, by its place."""
    return {node.name or f"{node.op_type}_{at}": node.output[0] for at, node in enumerate(model.graph.node)}


@pytest.mark.slow
def test_true_models_have_no_stale_sizes(tmp_path: Path) -> None:
    met: Counter[ProviderVerdict] = Counter()
    for seed in seeds.rng().sample(range(10**9), DRAWN):
        model, _ = random_model(seed)
        found = asked(tmp_path, model)
        assert not codes(found) & {"ORT101", "ORT102"}, seed
        met.update(node.verdict for node in nodes_of(found).values())
    assert met.keys() >= {V.FUSED, V.ADAPTER}


@pytest.mark.slow
def test_values_computed_beforehand_are_folded(tmp_path: Path) -> None:
    met: Counter[ProviderVerdict] = Counter()
    compared = 0
    for seed in seeds.rng().sample(range(10**9), DRAWN):
        model = random_shape_graph(seed)
        found = asked(tmp_path, model)
        nodes, counts = nodes_of(found), summary(found)
        met.update(node.verdict for node in nodes.values())
        results = _results(model)
        folded = {results[place] for place, node in nodes.items() if node.verdict is V.FOLDED and place in results}
        try:
            left = {name for node in optimised(model, "extended").graph.node for name in node.output}
        except Fail:  # its inference refuses what the draw did not
            continue
        compared += 1
        assert not folded & left, seed
        on_device = [node for node in nodes.values() if node.part is not None]
        assert counts.parts == len({node.part for node in on_device}) == max((node.part or 0 for node in on_device), default=0)
        assert sum((counts.directml, counts.either, counts.cpu, counts.folded, counts.fails, counts.unknown)) == len(nodes)
        outside = re.sub(r"\(.*?\)|in \d+ parts? or more", "", counts.text)
        assert sum(map(int, re.findall(r"\d+", outside.replace("DirectML", "")))) == len(nodes), counts.text
    assert met.keys() >= {V.SHAPE, V.ADAPTER}
    assert compared > DRAWN // 2
