"""DxDispatch models as programs that can be translated, with the initial values of their resources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.descriptor_graph import descriptor_graph, model_graph
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.directml.dxdispatch.commands import Print, WriteFile
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.dxdispatch.writing import initial_values
from dmlgather.files import read_text
from dmlgather.wording import counted


@dataclass(frozen=True)
class TranslatableFile:
    """A program that a file holds. initial: values of inputs, by the names that users know, which the file states. model: the
    DxDispatch model that it is.
    """

    graph: IndexGraph
    initial: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    model: CheckedFile | None = None

    def dropped(self, target: Path) -> list[str]:
        """What the model has and its translation in the model file `target` lacks, in words."""
        if self.model is None:
            return []
        made = json.loads(read_text(target))
        names: dict[str, Mapping[str, Any]] = {"resources": self.model.resources, "dispatchables": self.model.dispatchables}
        lost = {what: [name for name in known if name not in made[what]] for what, known in names.items()}
        written = [command for command in self.model.commands if isinstance(command, WriteFile)]
        verbose = any(isinstance(command, Print) and command.verbose for command in self.model.commands)
        return [
            *(["its comments"] if _COMMENT.search(read_text(Path(self.model.file))) else []),
            *(f"the name of {what}: {', '.join(map(repr, found))}" for what, found in lost.items() if found),
            *([f"{counted(len(written), 'writeFile command')}: the outputs are printed"] if written else []),
            *(["what 'verbose' says of print commands"] if verbose else []),
        ]


def of_checked(checked: CheckedFile) -> TranslatableFile:
    """A model, or a single descriptor, without errors. FileError where initial values cannot be read."""
    if checked.kind == "descriptor":
        return TranslatableFile(descriptor_graph([found.desc for found in checked.dispatchables.values()]))
    graph = model_graph(checked)
    initial = {}
    for value in graph.inputs:
        name, tensor = graph.label(value), graph.types[value]
        raw = initial_values(checked, checked.resources[name]).view(np.uint8)
        initial[name] = raw.view(tensor.dtype).reshape(tensor.shape)
    return TranslatableFile(graph, initial, checked)


_COMMENT = re.compile(r'^(?:[^"/]|"(?:[^"\\]|\\.)*+")*+/[/*]')
"""A text with a comment, up to where the first one begins. What else has a slash lies in a string."""
