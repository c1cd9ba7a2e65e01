"""Which files hold the outputs of a model's dispatches, by its writeFile commands."""

from __future__ import annotations

from typing import NamedTuple

from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch, WriteFile
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name

SUFFIXES = (".npy", ".bin", ".dat")
"""Files that can hold an output: NumPy's, or raw bytes."""


class DispatchOutput(NamedTuple):
    """Where one dispatch puts its output. writes: the commands that write its resource to a file before another dispatch writes
    the resource; replaced_by: the number of that dispatch command, None where there is none.
    """

    command: Dispatch
    bound: BufferBinding
    writes: list[WriteFile]
    replaced_by: int | None = None

    @property
    def in_file(self) -> bool:
        """Whether a file of the model can be compared with it."""
        return any(write.target.lower().endswith(SUFFIXES) for write in self.writes)


def dispatch_outputs(model: CheckedFile) -> dict[int, DispatchOutput]:
    """What each dispatch command of a model writes, by the command's number."""
    outputs: dict[int, DispatchOutput] = {}
    last: dict[str, int] = {}
    for number, command in enumerate(model.commands):
        if isinstance(command, Dispatch):
            output = wire_name(model.dispatchables[command.dispatchable].desc.operator.output)
            bound = model.buffer_bindings(command)[0][output]
            before = last.get(bound.resource)
            if before is not None:
                outputs[before] = outputs[before]._replace(replaced_by=number)
            outputs[number] = DispatchOutput(command, bound, [])
            last[bound.resource] = number
        elif isinstance(command, WriteFile) and command.resource in last:
            outputs[last[command.resource]].writes.append(command)
    return outputs
