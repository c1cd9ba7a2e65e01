"""Every public name has a docstring or overrides a name that has one. Docstrings of public functions have examples."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import dmlgather

NO_MODULES = ("__main__", ".libdmlgather", ".torch.operators")  # the second is the compiled engine; the third imports PyTorch
MODULES = [found.name for found in pkgutil.walk_packages(dmlgather.__path__, "dmlgather.") if not found.name.endswith(NO_MODULES)]

FACES = [dmlgather, dmlgather.onnx, dmlgather.openvino, dmlgather.lax, dmlgather.torch, dmlgather.distributed]

PUBLIC = {f"{face.__name__}.{name}": getattr(face, name) for face in FACES for name in face.__all__}


@pytest.mark.parametrize("name", MODULES)
def test_every_public_method_is_documented(name: str) -> None:
    silent = [
        f"{owner.__qualname__}.{member}"
        for owner in vars(importlib.import_module(name)).values()
        if inspect.isclass(owner) and owner.__module__ == name and not owner.__name__.startswith("_")
        for member, value in vars(owner).items()
        if not member.startswith("_") and isinstance(value, FunctionType | property | classmethod | staticmethod)
        if not inspect.getdoc(getattr(owner, member))
    ]
    assert not silent


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if not isinstance(value, ModuleType)])
def test_examples_in_docstrings_run(name: str) -> None:
    """Every public name except classes has an example."""
    found = examples(name, PUBLIC[name])
    if inspect.isclass(PUBLIC[name]):
        found += [part for member, value in vars(PUBLIC[name]).items() for part in examples(f"{name}.{member}", value)]
    else:
        assert found, f"{name} has no example"
    for example in found:
        printed: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=printed.append)
        assert not printed, "".join(printed)


def examples(name: str, value: Any) -> list[doctest.DocTest]:
    text = inspect.getdoc(value) or ""
    found = doctest.DocTestParser().get_doctest(text, {"dg": dmlgather, "np": np}, name, None, 0)
    return [found] if found.examples else []
