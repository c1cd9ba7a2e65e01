"""What `dmlgather explain` says of the launches of a DxDispatch model: which dispatches run as one, and why others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlgather.directml.dxdispatch.model_file import CheckedFile
    from dmlgather.explain import Explanation
    from dmlgather.model_fusion import FusedModel


def fused(checked: CheckedFile) -> FusedModel | None:
    """The model with its launches; None for a file that does not run several dispatches."""
    from dmlgather.directml.dxdispatch.commands import Dispatch
    from dmlgather.model_fusion import fuse_model

    several = sum(isinstance(command, Dispatch) for command in checked.commands) > 1
    return fuse_model(checked) if several and not checked.refusals else None


def launches(model: FusedModel) -> dict[str, Explanation]:
    """The explanation of each launch of several dispatches, by the names of these."""
    from dmlgather.fusion.explaining import explained
    from dmlgather.wording import printable

    several = {
        number: ", ".join(map(printable, model.names(number))) for number in model.launches if len(model.names(number)) > 1
    }
    return {names: explained(model.shaped(number), names) for number, names in several.items()}


def as_json(model: FusedModel) -> dict[str, Any]:
    """The launches of a model as JSON-able data, those of several dispatches with their explanation."""
    found = {names: each.to_json() for names, each in launches(model).items()}
    return {"name": "", "fused": {**model.fused.to_json(), "explanations": found}}
