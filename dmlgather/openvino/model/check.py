"""Check an OpenVINO IR file: every layer of the family is judged, and nothing is run."""

from __future__ import annotations

from pathlib import Path

from dmlgather.dialects.checked_model import CheckedModel
from dmlgather.dialects.relatives import found
from dmlgather.dialects.verdicts import of_host
from dmlgather.directml import FeatureLevel
from dmlgather.directml.located import FileProblem, LocatedFinding
from dmlgather.extras import missing_extra
from dmlgather.files import FileError
from dmlgather.openvino.model.ir_layers import read_model
from dmlgather.openvino.model.ir_xml import ForeignError, IRError, read_xml
from dmlgather.openvino.model.judging import described, judge
from dmlgather.openvino.model.layer_sites import find
from dmlgather.openvino.problems.relatives import RELATIVES


def check_ir(path: Path, level: str | FeatureLevel = "6_4", include_host: bool = False) -> CheckedModel:
    """Read the IR at `path` and judge its layers of the family at a feature level. Of the .bin beside it, only indices, axes and
    bounds are read, and what they are computed from.

    include_host: whether layers that are the host's arithmetic are judged as if DirectML had to take them.
    A file that cannot be understood has one problem. ValueError for an unknown level.
    """
    level = FeatureLevel.parse(level)
    file = str(path)
    try:
        model = read_model(read_xml(path))
        contents = find(model, path.with_suffix(".bin"))
        judged = [(site, *judge(site, level, contents.names.sizes)) for site in contents.sites]
        if not include_host:
            judged = [(site, of_host(each) if site.host else each, output) for site, each, output in judged]
    except ModuleNotFoundError as error:
        message = str(missing_extra("an OpenVINO IR", "openvino", error))
        return CheckedModel(file, problems=(FileProblem(file=file, message=message),))
    except FileError as error:
        line, column = (error.line, error.column) if isinstance(error, IRError) else error.position or (None, None)
        problem = FileProblem(file=file, line=line, column=column, message=str(error))
        return CheckedModel(file, foreign=isinstance(error, ForeignError), problems=(problem,))
    return CheckedModel(
        file,
        format=model.version,
        nodes=tuple(described(*pair) for pair in judged),
        others=dict(sorted(contents.others.items())),
        relatives=found(RELATIVES, contents.others),
        findings=tuple(
            LocatedFinding.of(finding, file, site.layer.line, None, site.place)
            for site, judgement, _ in judged
            for finding in judgement.findings
        ),
        calls={site.place: judgement.call for site, judgement, _ in judged if judgement.call is not None},
    )
