"""What a comparison adds to a saved case: every device's outputs, and the report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.comparing.compare_report import CompareReport
from dmlgather.directml import BufferTensorDesc, OperatorDesc
from dmlgather.directml.dxdispatch.values import dtype_of
from dmlgather.directml.dxdispatch.writing import beside, count, model_path, plain, save
from dmlgather.directml.fields import wire_name
from dmlgather.files import FileError, described
from dmlgather.model_runner import elements
from dmlgather.written_files import check_spared, staged, writing


def check_no_older(case: Path, devices: Iterable[str], given: int = 0, made_from: Iterable[Path] = ()) -> None:
    """FileError when outputs lie beside a case, of an earlier one, that saving it again would not replace: they would pass for
    outputs of the new case. And when it would replace one of the files that it is `made_from`.

    devices: whose outputs are going to replace older ones, and so are `given` outputs that were made elsewhere.
    """
    target = model_path(case)
    endings = [*map(_ending, devices), *(f"against{number}" for number in range(given))]
    output = re.compile(re.escape(beside(target, "")) + r"(replayed|out\d+_.+)\.(npy|bin|dat)")
    replaced = re.compile(rf".+\.({'|'.join(endings)})\.npy")
    with described():
        names = sorted(path.name for path in target.parent.iterdir()) if target.parent.is_dir() else []
    outputs = [name for name in names if output.fullmatch(name)]
    older = [name for name in outputs if not replaced.fullmatch(name)]
    if older:
        raise FileError(
            f"{target.parent} holds {', '.join(older)}, which would pass for outputs of the new case: remove them, or name "
            "another place"
        )
    check_spared([target.parent / name for name in outputs], made_from)


def _ending(device: str) -> str:
    """How a device's outputs are called."""
    return re.sub("[^a-z0-9]", "", device)


def save_outputs(
    target: Path,
    command: int,
    dispatchable: str,
    outputs: Mapping[str, NDArray[Any] | None],
    made_from: Iterable[Path] = (),
    *,
    given: int = 0,
) -> dict[str, str]:
    """Write each device's output of one dispatch beside the case whose model is `target`; the files' names by device.

    outputs: of shape Sizes; None for a device that raised an error. given: how many of the last ones were made elsewhere, and are
    named by their files. FileError when they cannot be written, or when a file of `made_from` would be overwritten.
    """
    endings = {
        device: _ending(device) if number < len(outputs) - given else f"against{number + given - len(outputs)}"
        for number, device in enumerate(outputs)
    }
    names = {
        device: beside(target, f"out{command}_{plain(dispatchable)}.{endings[device]}.npy")
        for device, output in outputs.items()
        if output is not None
    }
    with staged(target.parent, made_from) as stage:
        for device, name in names.items():
            output = outputs[device]
            assert output is not None
            save(output, stage / name)
    return names


def save_report(target: Path, report: CompareReport, made_from: Iterable[Path] = ()) -> Path:
    """Write the report beside the case whose model is `target`; its path. FileError as `save_outputs`."""
    name = beside(target, "report.json")
    with staged(target.parent, made_from) as stage, writing(stage / name, ()) as file:
        file.write(f"{json.dumps(report.model_dump(mode='json'), indent=2)}\n".encode())
    return target.parent / name


def buffers(desc: OperatorDesc, inputs: Sequence[NDArray[Any]], *, described: bool) -> list[NDArray[Any]]:
    """The inputs as buffers in the described layouts, shape [count]; bytes between elements are 0.

    inputs: of the described Sizes, or one-dimensional buffers; all of them buffers if `described`. ValueError for a tensor whose
    described elements share addresses at which the array holds different values.
    """
    tensors = [(wire_name(name), desc.tensor(name)) for name in desc.operator.inputs]
    return [_buffer(name, tensor, array, described) for (name, tensor), array in zip(tensors, inputs, strict=True)]


def _buffer(name: str, tensor: BufferTensorDesc, array: NDArray[Any], described: bool) -> NDArray[Any]:
    dtype = dtype_of(tensor.data_type)
    raw = np.zeros(count(tensor) * dtype.itemsize, np.uint8)
    if described or array.shape != tensor.sizes:
        given = array.view(np.uint8)[: raw.size]
        raw[: given.size] = given
        return raw.view(dtype)
    pattern = f"u{dtype.itemsize}"
    place = elements(raw, tensor).view(pattern)
    place[...] = array.view(pattern)
    if (place != array.view(pattern)).any():
        raise ValueError(
            f"{name}: the described Strides {list(tensor.element_strides)} put several elements of Sizes {list(tensor.sizes)} "
            "at one address, where the array holds different values: pass described buffers, or describe packed Strides"
        )
    return raw.view(dtype)
