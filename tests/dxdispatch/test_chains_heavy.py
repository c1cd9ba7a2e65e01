"""Thousands of random models: their graphs compute what they show. ci/heavy chains runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlgather.directml.dxdispatch.model_file import check_file
from tests.chain_count import each_seed
from tests.dialects.test_descriptor_graph import checked
from tests.dxdispatch.models import write
from tests.dxdispatch.random_chains import random_model


@pytest.mark.heavy
def test_chains_of_dispatches_as_graphs(tmp_path: Path) -> None:
    each_seed(lambda seed: checked(check_file(write(tmp_path, random_model(seed)))))
