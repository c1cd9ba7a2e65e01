"""A device that is wrong at known places: the reference, spoilt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends import reference


def spoil(monkeypatch: pytest.MonkeyPatch, flips: Mapping[int, int]) -> None:
    """From now on the device "reference" flips these bits: element of the output buffer -> bits of that element."""
    honest = reference.run

    def wrong(plan: Any, data: Any, indices: Any, out: NDArray[Any]) -> int | None:
        bad = honest(plan, data, indices, out)
        for address, bits in flips.items():
            out[address : address + 1].view(f"u{out.itemsize}")[0] ^= np.array(bits, f"u{out.itemsize}")
        return bad

    monkeypatch.setattr(reference, "run", wrong)
