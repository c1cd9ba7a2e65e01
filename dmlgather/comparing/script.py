"""A comparison as a Python script that needs dmlgather and NumPy only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dmlgather.comparing.python_source import SourceCall, array, constant, descriptor, identifiers, label, laid_out
from dmlgather.directml.dxdispatch.bindings import BufferBinding
from dmlgather.directml.dxdispatch.commands import Dispatch
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.resources import Resource
from dmlgather.directml.dxdispatch.values import Constant
from dmlgather.directml.dxdispatch.writing import initial_values, plain, save, sources
from dmlgather.directml.fields import wire_name
from dmlgather.written_files import staged, writing

EMBEDDED = 64
"""Values of a resource that are written into the script; more lie in a .npy file beside it."""

RESERVED = (
    "annotations",
    "argparse",
    "bits",
    "buffer",
    "devices",
    "dg",
    "equal",
    "found",
    "main",
    "np",
    "numbers",
    "parser",
    "sys",
)
"""Names that the script uses itself."""

HEAD = '''"""Run {what} on several devices and compare each output bit for bit.

Written by dmlgather {version} from {file}. It needs dmlgather and NumPy.
Usage: python {script} [--devices NAME,NAME]
Exit codes: 0 equal, 1 a mismatch, 2 it could not be run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import dmlgather as dg
import numpy as np
from numpy.typing import NDArray

{here}DEVICES = "{devices}"  # out of cpu, cuda, cuda:N, reference
'''

NUMBERS = '''def numbers(text: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return the numbers in `text`."""
    return np.array(text.split(), dtype)'''

BITS = '''def bits(text: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return elements from the hexadecimal digits of their bytes, in memory's order."""
    return np.frombuffer(bytes.fromhex(text), dtype)'''

BUFFER = '''def buffer(size: int, values: NDArray[Any], offset: int = 0) -> NDArray[np.uint8]:
    """Return `size` bytes: the values from byte `offset` on, and 0 elsewhere."""
    made = np.zeros(size, np.uint8)
    made[offset : offset + values.nbytes] = values.view(np.uint8)
    return made'''

MAIN = '''def main() -> int:
    """Compare every dispatch, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare devices bit for bit.")
    parser.add_argument("--devices", default=DEVICES, metavar="NAME,NAME")
    devices = parser.parse_args().devices.split(",")
    equal = True

    # What the buffers hold at the start.
'''

TAIL = """
    return 0 if equal else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (dg.DeviceError, MemoryError, OSError, TypeError, ValueError) as error:
        print(f"{Path(__file__).name}: {error}", file=sys.stderr)
        sys.exit(2)
"""


def write_script(model: CheckedFile, devices: Sequence[str], target: Path, made_from: Sequence[Path], version: str) -> Path:
    """Write a script that runs the dispatches of `model` on `devices` and compares their outputs; its path.

    made_from: the files of the comparison, first the one that the user named. version: of dmlgather. FileError when it cannot be
    written, or when it would overwrite one of these, or of the model's; then nothing is written.
    """
    script = _Script(model, target)
    with staged(target.parent, [*made_from, *sources(model)]) as stage:
        body = "\n".join(script.body(stage))
        head = HEAD.format(
            what=label(made_from[0].stem),
            version=version,
            file=label(made_from[0].name),
            script=label(target.name),
            here="HERE = Path(__file__).parent\n" if "HERE / " in body else "",
            devices=",".join(devices),
        )
        helpers = [text for name, text in (("numbers(", NUMBERS), ("bits(", BITS)) if name in body]
        parts = [f"{head}\n{script.descriptors()}", *helpers, BUFFER, f"{MAIN}{body}\n{TAIL}"]
        with writing(stage / target.name, ()) as file:
            file.write("\n\n\n".join(parts).encode())
    return target


class _Script:
    """The parts of a script that depend on the model."""

    def __init__(self, model: CheckedFile, target: Path) -> None:
        self.model, self.target = model, target
        self.dispatches = [(number, item) for number, item in enumerate(model.commands) if isinstance(item, Dispatch)]
        self.read = self._resources_read()
        used = dict.fromkeys(item.dispatchable for _, item in self.dispatches)
        self.names = identifiers(self.read, RESERVED)
        self.operators = identifiers(used, ("DEVICES", "HERE"), upper=True)

    def _resources_read(self) -> list[str]:
        """The resources that a dispatch reads, in the model's order."""
        read = set()
        for _, command in self.dispatches:
            at_execution, initial = self.model.buffer_bindings(command)
            output = wire_name(self.model.dispatchables[command.dispatchable].desc.operator.output)
            read |= {bound.resource for tensor, bound in (*at_execution.items(), *initial.items()) if tensor != output}
        return [name for name in self.model.resources if name in read]

    def descriptors(self) -> str:
        """A constant per operator."""
        lines = []
        for name, constant_name in self.operators.items():
            lines.append(laid_out(descriptor(self.model.dispatchables[name].desc), prefix=f"{constant_name} = "))
        return "\n".join(lines)

    def body(self, stage: Path) -> Iterator[str]:
        """The lines of `main` that make the resources and compare the dispatches. Large values are written to `stage`."""
        for number, name in enumerate(self.read):
            resource = self.model.resources[name]
            offset = [str(resource.offset)] if resource.offset else []
            call = SourceCall("buffer", [str(resource.size), self._values(resource, number, stage), *offset])
            yield f"    {laid_out(call, 4, f'{self.names[name]} = ')}"
        owned = {}
        for command in {item.dispatchable: item for _, item in self.dispatches}.values():
            for tensor, bound in self.model.buffer_bindings(command)[1].items():
                owned[command.dispatchable, tensor] = f"{self._part(bound)}.copy()"
        copies = identifiers([f"{name}_{tensor}" for name, tensor in owned], (*RESERVED, *self.names.values()))
        if owned:
            yield "\n    # Inputs owned by DirectML: copied when the operators are initialised."
        kept = dict(zip(owned, copies.values(), strict=True))
        for key, source in owned.items():
            yield f"    {kept[key]} = {source}"
        for place, (number, command) in enumerate(self.dispatches):
            yield from self._dispatch(number, command, kept, last=place == len(self.dispatches) - 1)

    def _dispatch(self, number: int, command: Dispatch, owned: Mapping[tuple[str, str], str], *, last: bool) -> Iterator[str]:
        desc = self.model.dispatchables[command.dispatchable].desc
        bound, _ = self.model.buffer_bindings(command)
        operator = self.operators[command.dispatchable]
        inputs = []
        for tensor in map(wire_name, desc.operator.inputs):
            kept = owned.get((command.dispatchable, tensor))
            inputs.append(kept if kept is not None else self._part(bound[tensor]))
        call = SourceCall("dg.compare", [operator, *inputs, ("devices", "devices"), ("buffers", "True")])
        yield f"\n    {laid_out(call, 4, 'found = ')}"
        shown = f"\"commands[{number}] '{label(command.dispatchable)}':\""
        yield f"    {laid_out(SourceCall('print', [shown, 'found']), 4)}"
        yield "    equal = equal and found.equal"
        output = bound[wire_name(desc.operator.output)]
        if not last and output.resource in self.names:
            run = SourceCall(f'dg.compile({operator}, device="cpu").run_buffers', [*inputs, ("out", self._part(output))])
            yield f"    # The buffer goes on with the CPU's result.\n    {laid_out(run, 4)}"

    def _part(self, bound: BufferBinding) -> str:
        name, whole = self.names[bound.resource], self.model.resources[bound.resource].size
        if not bound.offset and bound.size == whole:
            return name
        return f"{name}[{bound.offset or ''}:{bound.offset + bound.size}]"

    def _values(self, resource: Resource, number: int, stage: Path) -> SourceCall:
        values = resource.values
        if isinstance(values, Constant):
            return constant(values.value, values.count, values.data_type)
        found = initial_values(self.model, resource)
        if values.count <= EMBEDDED:
            return array(found, values.data_type, 12)
        name = f"{plain(self.target.stem)}.in{number}_{plain(resource.name)}.npy"
        save(found, stage / name)
        return SourceCall("np.load", [f'HERE / "{name}"'])
