"""Thousands of random IRs: their graphs compute what OpenVINO computes, fused or not. ci/heavy chains runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.fusion import fuse
from tests.chain_count import each_seed
from tests.openvino.random_chains import random_ir
from tests.openvino.test_index_graph import bits, live, same


@pytest.mark.heavy
def test_chains_of_layers(tmp_path: Path) -> None:
    def check(seed: int) -> None:
        path, feeds = random_ir(seed, tmp_path)
        graph = same(path, feeds)
        fused = fuse(graph).run({name: feeds[name] for name in graph.inputs})
        assert bits([fused[name] for name in graph.outputs]) == bits(live(path, feeds))

    each_seed(check)
