"""What OpenVINO infers when it reads a model, against what the ports of its file state, which it passes over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlgather.dialects.export_codes import CODES
from dmlgather.directml import Finding
from dmlgather.openvino.model.layer_sites import LayerSite, PortInfo, Shape, typed
from dmlgather.openvino.problems.gather import axis_of

SAVE_ANEW = "have OpenVINO read the model and save it anew, as it infers what ports state"


def output_of(site: LayerSite) -> PortInfo:
    """The output as it follows from a well-formed layer's inputs where they are known; what its port states elsewhere."""
    data, indices, stated = site.data, site.indices, site.output
    kind = data.type or stated.type
    unknown = PortInfo(stated.role, stated.name, kind, stated.shape)
    if data.shape is None or indices.shape is None or indices.assumed or not isinstance(site.axis_value, np.ndarray):
        return unknown
    axis, batch = _from_front(site, len(data.shape), len(indices.shape))
    if not 0 <= batch <= axis < len(data.shape) or batch > len(indices.shape):
        return unknown
    # Batches have equal sizes, so that either says them.
    batches = [theirs if ours is None else ours for ours, theirs in zip(data.shape, indices.shape, strict=False)][:batch]
    shape = (*batches, *data.shape[batch:axis], *indices.shape[batch:], *data.shape[axis + 1 :])
    return PortInfo(stated.role, stated.name, kind, shape)


def _from_front(site: LayerSite, rank: int, indices_rank: int) -> tuple[int, int]:
    try:
        axis = axis_of(site.axis_value)
    except (TypeError, ValueError):
        return -1, 0
    batch = site.batch_dims
    return axis + (rank if axis < 0 else 0), batch + (indices_rank if batch < 0 else 0)


def contradicted_output(site: LayerSite) -> Iterator[Finding]:
    """The finding about an output port that a well-formed layer's inputs contradict."""
    output = output_of(site)
    if contradict(site.output, output):
        yield CODES["EXP101"].finding(
            "output",
            expected=f"{typed(output.type, output.shape)}, which follows from the inputs",
            got=f"{typed(site.output.type, site.output.shape)}, which the output port states",
            remedy=f"mend the layer, or where it is as it was meant, {SAVE_ANEW}",
            source="[OPENVINO] Gather",
        )


def contradicted_inputs(site: LayerSite) -> Iterator[Finding]:
    """Findings about input ports that contradict what they are joined to, which is what counts."""
    for given in (site.data, site.indices, site.axis):
        if given.port is not None and contradict(given, given.port):
            yield CODES["EXP303"].finding(
                given.role,
                expected=f"{typed(given.type, given.shape)}, as {given.name!r} has it, which is what OpenVINO goes by",
                got=f"{typed(given.port.type, given.port.shape)}, which the port of the layer states",
                remedy=SAVE_ANEW,
                source="[OPENVINO] Gather",
            )


def contradict(one: PortInfo, other: PortInfo) -> bool:
    """Whether no tensor is both, by what is known of them."""
    if None not in (one.type, other.type) and one.type != other.type:
        return True
    return one.shape is not None and other.shape is not None and not _compatible(one.shape, other.shape)


def _compatible(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(None in pair or pair[0] == pair[1] for pair in zip(one, other, strict=True))
