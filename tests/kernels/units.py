"""The text of every `.cu` file, generated from the table of variants."""

from __future__ import annotations

from pathlib import Path

from dmlgather.backends.cuda.variants import VARIANTS

KERNELS = Path(__file__).parents[2] / "cuda_kernels"

UNITS: tuple[str, ...] = tuple(dict.fromkeys(variant.unit for variant in VARIANTS))
"""The `.cu` files."""

_HEADERS = {
    "slice.cu": ("Slices: copies and mirrored copies.", ("copy.cuh",)),
    "tile.cu": ("Slices that are transposed in shared memory.", ("tile.cuh", "square.cuh")),
    "gather1_index32.cu": ("One lookup, 32-bit indices.", ("copy.cuh",)),
    "gather1_index64.cu": ("One lookup, 64-bit indices.", ("copy.cuh",)),
    "gather2_index32.cu": ("Two lookups, 32-bit indices.", ("copy.cuh",)),
    "gather2_index64.cu": ("Two lookups, 64-bit indices.", ("copy.cuh",)),
    "gather3_index32.cu": ("Three lookups, 32-bit indices.", ("copy.cuh",)),
    "gather3_index64.cu": ("Three lookups, 64-bit indices.", ("copy.cuh",)),
    "span.cu": ("Runs of bytes at any alignment.", ("span.cuh",)),
    "staged.cu": ("Rows that are gathered from shared memory.", ("staged.cuh", "staged_long.cuh")),
    "general.cu": ("Everything that is not specialised.", ("general.cuh",)),
}


def unit_text(unit: str) -> str:
    """Return the required text of `cuda_kernels/<unit>`."""
    title, headers = _HEADERS[unit]
    lines = [
        f"// {title} Entry points: rows of dmlgather/backends/cuda/variants.py; `ci/kernels --write` writes this file.",
        *(f'#include "{header}"' for header in headers),
        "",
        *(variant.line for variant in VARIANTS if variant.unit == unit),
    ]
    return "\n".join(lines) + "\n"


def write_units() -> None:
    for unit in UNITS:
        (KERNELS / unit).write_text(unit_text(unit))
