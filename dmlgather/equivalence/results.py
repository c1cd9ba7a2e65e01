"""What `equivalent` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Given = Literal["any", "valid"]
"""For which inputs: all, or those for which no index of the first program is out of range."""


@dataclass(frozen=True, slots=True, eq=False)
class Counterexample:
    """Inputs for which two programs differ.

    inputs: by the first program's names. output: the name of the output that differs; None where one program raises. position: of
    an element that differs. values: both elements, or None. sources: where both come from, as "x[3, 4]". errors: what each
    program raises, or None.
    """

    inputs: Mapping[str, NDArray[Any]]
    output: str | None
    position: tuple[int, ...] = ()
    values: tuple[Any, Any] = (None, None)
    sources: tuple[str, str] = ("", "")
    errors: tuple[str | None, str | None] = (None, None)

    def __str__(self) -> str:
        lines = []
        for side, error in zip(("first", "second"), self.errors, strict=True):
            if error is not None:
                lines.append(f"the {side} program raises: {error}")
            elif self.output is None:
                lines.append(f"the {side} program raises nothing")
        if self.output is not None:
            place = f"[{', '.join(map(str, self.position))}]" if self.position else ""
            lines.append(f"output {self.output!r}{place}")
            for side, value, source in zip(("first", "second"), self.values, self.sources, strict=True):
                lines.append(f"  {side}: {value} from {source}")
        lines.append("inputs")
        lines += [f"  {name} = {_shown(array)}" for name, array in self.inputs.items()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain data. Elements are text where JSON has no number for them."""
        return {
            "inputs": {
                name: {"dtype": str(array.dtype), "shape": list(array.shape), "elements": _plain(array)}
                for name, array in self.inputs.items()
            },
            "output": self.output,
            "position": list(self.position),
            "values": [None if value is None else str(value) for value in self.values],
            "sources": list(self.sources),
            "errors": list(self.errors),
        }


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether two programs index alike; true where that is proven.

    verdict: "proven", "different" or "not proven". given: for which inputs. reason: why it is not proven, or in what the programs
    differ; of a proof, what was compared for fewer values. step: the first step that stops the proof, or "". counterexample:
    where the programs differ for some inputs. assumptions: what a proof takes for granted of operators that do not index.
    """

    verdict: Literal["proven", "different", "not proven"]
    given: Given = "any"
    reason: str = ""
    step: str = ""
    counterexample: Counterexample | None = field(default=None, compare=False)
    assumptions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.verdict == "proven"

    def __str__(self) -> str:
        inputs = "all inputs" if self.given == "any" else "all inputs for which no index of the first program is out of range,"
        match self.verdict:
            case "proven":
                head = f"proven: equal for {inputs} of these shapes{self.reason and f' ({self.reason})'}"
                head += f", provided that {'; that '.join(self.assumptions)}" if self.assumptions else ""
            case "different":
                head = f"different: {self.reason}"
            case _:
                head = f"not proven: {self.reason}"
        return head if self.counterexample is None else f"{head}\n{self.counterexample}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "verdict": self.verdict,
            "given": self.given,
            "reason": self.reason,
            "step": self.step,
            "assumptions": list(self.assumptions),
            "counterexample": None if self.counterexample is None else self.counterexample.to_json(),
        }


def _shown(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)} {np.array2string(array, threshold=20, separator=', ', prefix='    ')}"


def _plain(array: NDArray[Any]) -> Any:
    """The elements as nested lists: integers and bools as they are, of other types as text."""
    return array.tolist() if array.dtype.kind in "biu" else np.vectorize(str, otypes=[object])(array).tolist()
