"""Where the kernel sources lie, and the self-contained source of each kernel."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from dmlgather.backends.cuda.variants import Variant
from dmlgather.files import shipped

OPTIONS = ("-std=c++17",)
"""Compiler options of every kernel, beside the architecture."""

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_ENTRY = re.compile(r"^[A-Z]+\((\w+)\b.*\)$")


def kernel_folder() -> Path:
    """`cuda_kernels/` inside the installed wheel, else of the checkout that this package is imported from."""
    return shipped("cuda_kernels")


@functools.cache
def unit_source(unit: str) -> str:
    """A unit with its headers included, each once: CuPy's cache compares the whole text to find out if a kernel changed."""
    seen: set[str] = set()

    def expanded(name: str) -> str:
        text = (kernel_folder() / name).read_text(encoding="utf-8").replace("#pragma once\n", "")

        def header(match: re.Match[str]) -> str:
            if match[1] in seen:
                return ""
            seen.add(match[1])
            return expanded(match[1])

        return _INCLUDE.sub(header, text)

    return expanded(unit)


def kernel_source(variant: Variant) -> str:
    """The unit of `variant` with the other entry points left out, so that a first call compiles one kernel."""
    lines = unit_source(variant.unit).splitlines()
    kept = [line for line in lines if (entry := _ENTRY.match(line)) is None or entry[1] == variant.name]
    if variant.line not in kept:
        raise ValueError(f"{variant.unit} in {kernel_folder()} has no line {variant.line}")
    return "\n".join(kept) + "\n"
