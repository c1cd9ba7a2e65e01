"""What onnx's reference evaluator gets wrong of operators that compute shapes and views."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.dialects.outcomes import content
from tests.onnx.auxiliary_drafts import Draft, by_reference, versions
from tests.peers.faults import Peer, PeerFault


def _answers(found: Draft) -> tuple[object, object]:
    try:
        theirs: object = content(by_reference(found))
    except Exception as error:  # it raises what NumPy and Python raise
        theirs = repr(error)
    return theirs, content(found.run())


def _draft(version: str, sizes: tuple[int, ...], **attributes: Any) -> Draft:
    (found,) = (each for each in versions(version.partition("-")[0]) if str(each) == version)
    return Draft(found, [np.zeros(sizes, np.float32)], attributes)


def _axes_are_unsorted(found: Draft) -> bool:
    axes: list[int] = found.attributes.get("axes", [])
    return axes != sorted(map(abs, axes))


REFERENCE = Peer(
    "onnx's reference evaluator",
    "onnx",
    _answers,
    (
        PeerFault(
            "Reshape-1",
            "does not know the attribute shape",
            "reshape",
            lambda found: str(found.version) == "Reshape-1",
            _draft("Reshape-1", (1,), shape=[1]),
        ),
        PeerFault(
            "Cast-1",
            "knows no types by their names",
            "convert",
            lambda found: str(found.version) == "Cast-1",
            _draft("Cast-1", (1,), to="INT64"),
        ),
        PeerFault(
            "axes of Squeeze and Unsqueeze before version 13",
            "takes them one after the other",
            "take all as axes of the input, or of the output",
            _axes_are_unsorted,
            _draft("Squeeze-1", (1, 1), axes=[1, 0]),
        ),
        PeerFault(
            "Shape with an end before the first axis",
            "adds the rank and does not clamp",
            "clamp it to 0",
            lambda found: found.attributes.get("end", 0) < -found.inputs[0].ndim,
            _draft("Shape-15", (2, 2), end=-3),
        ),
    ),
)
