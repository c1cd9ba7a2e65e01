"""Translations as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmlgather.files import FileError, check_spared, staged, writing
from dmlgather.onnx.model.file import LARGEST_FILE
from dmlgather.translation.directml_target import DispatchSequence
from dmlgather.translation.onnx_target import OnnxForm
from dmlgather.translation.restating import output_names
from dmlgather.translation.translating import Translation

Initial = Mapping[str, NDArray[Any]]
"""Values of inputs, by the inputs' names in the translation."""


class FileKind(NamedTuple):
    """How a library's translations are written. suffix: of the file. beside: that of the file beside it, if there is one."""

    suffix: str
    write: Callable[[Translation, Initial, Path, Iterable[Path]], None]
    beside: str = ""

    def check(self, path: Path, made_from: Iterable[Path]) -> None:
        """FileError where writing a translation to `path` would replace a file that it is made from, or a file beside it that
        belongs to something else.
        """
        beside = path.with_suffix(self.beside or self.suffix)
        check_spared({path: None, beside: None}, made_from)
        if beside != path and beside.exists() and not _belongs(beside, path):
            raise FileError(f"{beside} is not the weights of {path}, and would be replaced: choose another name, or remove it")


def write(made: Translation, initial: Initial, path: Path, made_from: Iterable[Path]) -> None:
    """Write a translation that has a form. initial: values of inputs of the source, which an ONNX model has as defaults, and a
    DxDispatch model as initial values.

    UntranslatableError for a form that no file can hold. FileError where the file cannot be written, or would replace a file of
    `made_from`, or one that belongs to something else.
    """
    assert made.graph is not None
    names = dict(zip(map(made.source.label, made.source.inputs), made.graph.inputs, strict=True))
    kind = KINDS[made.library]
    kind.check(path, made_from)
    kind.write(made, {names[name]: array for name, array in initial.items()}, path, made_from)


def _belongs(weights: Path, ir: Path) -> bool:
    """Whether a .bin file holds just the constants of the IR beside it."""
    from dmlgather.openvino.model.ir_xml import read_xml

    try:
        layers = [layer for every in read_xml(ir).all("layers") for layer in every.all("layer")]
        stated = [data for layer in layers if layer.get("type") == "Const" for data in layer.all("data")]
        ends = [int(data.get("offset") or 0) + int(data.get("size") or 0) for data in stated]
        return max(ends, default=0) == weights.stat().st_size
    except (FileError, OSError, ValueError):
        return False


def _onnx(made: Translation, initial: Initial, path: Path, made_from: Iterable[Path]) -> None:
    assert made.graph is not None
    model = OnnxForm(made.graph, made.version).model(initial, output_names(made.source))
    size = model.ByteSize()
    if size > LARGEST_FILE:
        raise FileError(f"{path} would have {size} bytes, and a protobuf message at most {LARGEST_FILE}: split the model")
    with writing(path, made_from) as file:
        file.write(model.SerializeToString())


def _openvino(made: Translation, _: Initial, path: Path, made_from: Iterable[Path]) -> None:
    openvino: Any = import_module("openvino")
    with staged(path.parent, made_from) as folder:
        openvino.save_model(made.form, folder / path.name, compress_to_fp16=False)


def _jax(made: Translation, _: Initial, path: Path, made_from: Iterable[Path]) -> None:
    assert made.graph is not None
    jax, export = import_module("jax"), import_module("jax.export")
    types = [made.graph.types[name] for name in made.graph.inputs]
    with jax.enable_x64(any(tensor.dtype.itemsize == 8 for tensor in types)):
        made_for = (jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in types)
        exported = export.export(jax.jit(made.form))(*made_for)
    with writing(path, made_from) as file:
        file.write(exported.serialize())


def _directml(made: Translation, initial: Initial, path: Path, made_from: Iterable[Path]) -> None:
    assert made.graph is not None
    model = DispatchSequence(made.graph, made.version).model(output_names(made.source), initial)
    with writing(path, made_from) as file:
        file.write((json.dumps(model, indent=2) + "\n").encode())


KINDS: Mapping[str, FileKind] = {
    "onnx": FileKind(".onnx", _onnx),
    "openvino": FileKind(".xml", _openvino, beside=".bin"),
    "jax": FileKind(".jax", _jax),
    "directml": FileKind(".json", _directml),
}
"""By library."""
