"""What OpenVINO infers when it reads a model, compared with what the file's ports say, which OpenVINO ignores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dmlgather.dialects.checked_model import CheckedTensor, typed
from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.openvino.model.ir_layers import Port
from dmlgather.openvino.model.layer_sites import LayerSite

SAVE_AGAIN = "have OpenVINO read the model and save it again, which infers what ports say"


def output_of(site: LayerSite, shapes: Sequence[tuple[int, ...]] = ()) -> CheckedTensor:
    """The output of a layer. shapes: those that it has with several values of the sizes that are not known; what all have in
    common is known. Where there are none, the shape is as the output port has it.
    """
    output = site.output.model_copy(update={"type": site.inputs["data"].type or site.output.type})
    if not shapes or site.condition:
        return output
    first, *others = shapes
    sizes = (size if all(other[axis] == size for other in others) else None for axis, size in enumerate(first))
    return output.model_copy(update={"shape": tuple(sizes)})


def contradicted_output(site: LayerSite, output: CheckedTensor) -> Iterator[Finding]:
    """The finding about an output port that a well-formed layer's inputs contradict."""
    (port,) = site.layer.outputs
    if contradict(output, port):
        yield CODES["EXP101"].finding(
            "output",
            expected=f"{typed(output.type, output.shape)}, which follows from the inputs",
            got=f"{typed(port.type, port.shape)}, which the output port has",
            remedy=f"correct the layer; if its inputs are right, {SAVE_AGAIN}",
            source=f"[OPENVINO] {site.layer.type}",
        )


def contradicted_inputs(site: LayerSite) -> Iterator[Finding]:
    """Findings about input ports that contradict the layers that they are connected to, which OpenVINO believes."""
    for tensor, port in zip(site.inputs.values(), site.layer.inputs, strict=True):
        if contradict(tensor, port):
            yield CODES["EXP303"].finding(
                tensor.role,
                expected=f"{typed(tensor.type, tensor.shape)}, the type of {tensor.name!r}, which OpenVINO uses",
                got=f"{typed(port.type, port.shape)}, which the layer's port has",
                remedy=SAVE_AGAIN,
                source=f"[OPENVINO] {site.layer.type}",
            )


def contradict(tensor: CheckedTensor, port: Port) -> bool:
    """Whether no tensor has the type and shape of both, as far as they are known."""
    if None not in (tensor.type, port.type) and tensor.type != port.type:
        return True
    if tensor.shape is None or port.shape is None:
        return False
    pairs = list(zip(tensor.shape, port.shape, strict=False))
    return len(tensor.shape) != len(port.shape) or any(None not in pair and pair[0] != pair[1] for pair in pairs)
