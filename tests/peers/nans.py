"""NaNs of float16: libraries that compute in float32 change some of them, where operators move bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNALLING: NDArray[Any] = np.array([0x7C01, 0xFD80], np.uint16).view(np.float16)
"""Two signalling NaNs."""


def quiet(array: NDArray[Any]) -> NDArray[Any]:
    """float16 with every NaN made a quiet one; other types as they are."""
    if array.dtype != np.float16:
        return array
    words = array.view(np.uint16)
    is_nan = words & 0x7FFF > 0x7C00
    return np.asarray(np.where(is_nan, words | 0x0200, words)).astype(np.uint16).view(np.float16)
