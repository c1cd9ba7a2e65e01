"""What OpenVINO infers when it reads a model, compared with what the file's ports say, which OpenVINO ignores."""

from __future__ import annotations

from collections.abc import Iterator

from dmlgather.dialects.checked_model import CheckedTensor, Unknown, typed
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import check_axis
from dmlgather.directml import Finding
from dmlgather.openvino.model.ir_layers import Port
from dmlgather.openvino.model.layer_sites import LayerSite
from dmlgather.openvino.problems.gather import axis_of

SAVE_AGAIN = "have OpenVINO read the model and save it again, which infers what ports say"


def output_of(site: LayerSite) -> CheckedTensor:
    """The output that a well-formed layer's inputs give; what they do not determine is as the output port has it."""
    data, indices = site.data, site.indices
    output = site.output.model_copy(update={"type": data.type or site.output.type})
    if data.shape is None or indices.shape is None or site.condition or isinstance(site.axis_value, Unknown):
        return output
    try:
        axis = check_axis("axis", axis_of(site.axis_value), len(data.shape), "data")
    except (TypeError, ValueError):
        return output
    batch = site.batch_dims + (len(indices.shape) if site.batch_dims < 0 else 0)
    if not 0 <= batch <= min(axis, len(indices.shape)):
        return output
    # Batch sizes are equal, so one known size is enough.
    batches = [other if size is None else size for size, other in zip(data.shape[:batch], indices.shape[:batch], strict=True)]
    shape = (*batches, *data.shape[batch:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    return output.model_copy(update={"shape": shape})


def contradicted_output(site: LayerSite) -> Iterator[Finding]:
    """The finding about an output port that a well-formed layer's inputs contradict."""
    output, (port,) = output_of(site), site.layer.outputs
    if contradict(output, port):
        yield CODES["EXP101"].finding(
            "output",
            expected=f"{typed(output.type, output.shape)}, which follows from the inputs",
            got=f"{typed(port.type, port.shape)}, which the output port has",
            remedy=f"correct the layer; if its inputs are right, {SAVE_AGAIN}",
            source="[OPENVINO] Gather",
        )


def contradicted_inputs(site: LayerSite) -> Iterator[Finding]:
    """Findings about input ports that contradict the layers that they are connected to, which OpenVINO believes."""
    for tensor, port in zip((site.data, site.indices, site.axis), site.layer.inputs, strict=True):
        if contradict(tensor, port):
            yield CODES["EXP303"].finding(
                tensor.role,
                expected=f"{typed(tensor.type, tensor.shape)}, the type of {tensor.name!r}, which OpenVINO uses",
                got=f"{typed(port.type, port.shape)}, which the layer's port has",
                remedy=SAVE_AGAIN,
                source="[OPENVINO] Gather",
            )


def contradict(tensor: CheckedTensor, port: Port) -> bool:
    """Whether no tensor has the type and shape of both, as far as they are known."""
    if None not in (tensor.type, port.type) and tensor.type != port.type:
        return True
    if tensor.shape is None or port.shape is None:
        return False
    pairs = list(zip(tensor.shape, port.shape, strict=False))
    return len(tensor.shape) != len(port.shape) or any(None not in pair and pair[0] != pair[1] for pair in pairs)
