"""Parts of a file that DxDispatch knows and dmlgather does not: other operators, shaders, their constants, ONNX models."""

from __future__ import annotations

from typing import NamedTuple

from dmlgather.directml.codes import CODES
from dmlgather.directml.dxdispatch.jsonc import Path
from dmlgather.directml.dxdispatch.reading import Reading, dotted
from dmlgather.directml.operators import OPERATORS
from dmlgather.wording import alternatives

DISPATCHABLES = {"hlsl": "an HLSL shader", "onnx": "an ONNX model", "dmlSerializedGraph": "a serialized DirectML graph"}
"""The types of dispatchables that are no operators of DirectML."""

CONSTANTS = "a list of typed constants for HLSL shaders"
"""What a resource is that dmlgather does not read."""

OTHER = "DML804"
"""The code of what is noted and left out."""


class ForeignPart(NamedTuple):
    """A dispatchable, descriptor or resource that is noted and left out. path: of the value that says what it is.

    what: "DML_OPERATOR_GEMM", or words for anything else.
    """

    what: str
    path: Path

    def note(self, reading: Reading, subject: str = "", lines: int = 1) -> None:
        """Report that it is left out. subject, lines: as in `LocatedFinding`."""
        finding = CODES[OTHER].finding(
            dotted(self.path),
            expected="an operator that `dmlgather levels` lists",
            got=self.what,
            remedy="none is needed: it is left out",
        )
        reading.finding(finding, self.path, subject, lines=lines)

    def refusal(self, name: str) -> str:
        """Why what uses it, by its name in the file, cannot be executed."""
        known = alternatives(operator.name for operator in OPERATORS.values())
        return f"cannot be executed: {name} is {self.what}, and dmlgather executes only {known}"
