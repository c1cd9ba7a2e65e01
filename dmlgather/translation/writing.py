"""Translations as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmlgather.files import staged, writing
from dmlgather.translation.directml_form import DispatchSequence
from dmlgather.translation.onnx_form import OnnxForm
from dmlgather.translation.restating import output_names
from dmlgather.translation.translating import Translation

Initial = Mapping[str, NDArray[Any]]
"""Values of inputs, by the inputs' names in the translation."""


class FileKind(NamedTuple):
    """How a library's translations are written. suffix: of the file."""

    suffix: str
    write: Callable[[Translation, Initial, Path], None]


def write(made: Translation, initial: Initial, path: Path) -> None:
    """Write a translation that is there. initial: values of inputs of the source, which an ONNX model has as defaults.

    FileError where the file cannot be written.
    """
    assert made.graph is not None
    names = dict(zip(map(made.source.label, made.source.inputs), made.graph.inputs, strict=True))
    KINDS[made.library].write(made, {names[name]: array for name, array in initial.items()}, path)


def _onnx(made: Translation, initial: Initial, path: Path) -> None:
    assert made.graph is not None
    model = OnnxForm(made.graph, made.version).model(initial, output_names(made.source))
    with writing(path) as file:
        file.write(model.SerializeToString())


def _openvino(made: Translation, _: Initial, path: Path) -> None:
    openvino: Any = import_module("openvino")
    with staged(path.parent) as folder:
        openvino.save_model(made.form, folder / path.name, compress_to_fp16=False)


def _jax(made: Translation, _: Initial, path: Path) -> None:
    assert made.graph is not None
    jax, export = import_module("jax"), import_module("jax.export")
    types = [made.graph.types[name] for name in made.graph.inputs]
    with jax.enable_x64(any(tensor.dtype.itemsize == 8 for tensor in types)):
        made_for = (jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in types)
        exported = export.export(jax.jit(made.form))(*made_for)
    with writing(path) as file:
        file.write(exported.serialize())


def _directml(made: Translation, _: Initial, path: Path) -> None:
    assert made.graph is not None
    model = DispatchSequence(made.graph, made.version).model(output_names(made.source))
    with writing(path) as file:
        file.write((json.dumps(model, indent=2) + "\n").encode())


KINDS: Mapping[str, FileKind] = {
    "onnx": FileKind(".onnx", _onnx),
    "openvino": FileKind(".xml", _openvino),
    "jax": FileKind(".jax", _jax),
    "directml": FileKind(".json", _directml),
}
"""By library."""
