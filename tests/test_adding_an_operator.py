"""The recipe of CONTRIBUTING.md in a copy of the package, with an invented operator that swaps the last two dimensions."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).parents[1]

DECLARATION = '''"""SWAP_LAST: declaration, rules, lowering, documented reference."""

from dmlgather.directml.descriptors import SwapLastOperatorDesc
from dmlgather.directml.operators.operator import Operator, plan
from dmlgather.directml.rules.rule import Fault, Rule
from dmlgather.directml.rules.shared import SIZES, compare_sizes
from dmlgather.directml.shapes import swapped
from dmlgather.directml.types import FeatureLevel


def _output_sizes(case):
    desc, expected = case.desc, swapped(case.desc.input_tensor.sizes)
    reason, remedy = "InputTensor's sizes with the last two swapped", "set OutputTensor.Sizes to what is expected"
    yield from compare_sizes("OutputTensor.Sizes", expected, desc.output_tensor.sizes, reason, remedy)


SWAP_LAST_RULES = (Rule("DML999", _output_sizes, needs=SIZES),)

SWAP_LAST = Operator(
    name="SWAP_LAST",
    value=9999,
    desc=SwapLastOperatorDesc,
    introduced=FeatureLevel.LEVEL_1_0,
    inputs=("input_tensor",),
    rules=SWAP_LAST_RULES,
    output_sizes=lambda desc: swapped(desc.input_tensor.sizes),
    lower=lambda desc, layouts: plan(desc, layouts, swapped(layouts["input_tensor"].strides)),
    reference=lambda desc, data: data.swapaxes(-1, -2).copy(),
)
'''

DESCRIPTOR = '''"""The descriptor of SWAP_LAST."""

from dmlgather.directml import building
from dmlgather.directml.descriptors.operator_desc import OperatorDesc
from dmlgather.directml.tensor import BufferTensorDesc


class SwapLastOperatorDesc(OperatorDesc):
    """DML_SWAP_LAST_OPERATOR_DESC: output[…, i, j] = input[…, j, i]."""

    input_tensor: BufferTensorDesc
    """The tensor to read from."""

    output_tensor: BufferTensorDesc
    """The tensor to write."""

    @classmethod
    def of(cls, data, *, output=None):
        """The descriptor for data; see OperatorDesc."""
        return building.swap_last(cls, data, output=output)
'''

BUILDER = '''

def swap_last(kind, data, *, output):
    """SWAP_LAST."""
    source = tensor_of("data", data)
    return padded_descriptor(kind, {"input_tensor": source}, lambda _: {}, rank=4, output=output, dimension_count=None)
'''

SHAPE = '''

def swapped(sizes: Sequence[int]) -> tuple[int, ...]:
    """SWAP_LAST's output sizes, and the strides of its input along them."""
    *lead, rows, columns = sizes
    return (*lead, columns, rows)
'''

NEW_FILES = {"dmlgather/directml/descriptors/swap_last.py": DESCRIPTOR, "dmlgather/directml/operators/swap_last.py": DECLARATION}
APPENDED = {"dmlgather/directml/building.py": BUILDER, "dmlgather/directml/shapes.py": SHAPE}

BEFORE = {
    # by file: a text that occurs once, and the text to insert before it
    "dmlgather/directml/support.py": (
        ')\n"""Columns: operator, feature level',
        '    ("SWAP_LAST", _L.LEVEL_1_0, FLOATS, NO_INDICES, FOUR, "[SWAP] made up"),\n',
    ),
    "dmlgather/directml/codes.py": (
        ")\n\nCODES = ",
        '    Code("DML999", "OutputTensor has the swapped sizes", _ERROR, "[SWAP] made up"),\n',
    ),
    "dmlgather/directml/descriptors/__init__.py": (
        "\n__all__",
        "from dmlgather.directml.descriptors.swap_last import SwapLastOperatorDesc\n",
    ),
    "dmlgather/directml/operators/__init__.py": (
        "\n_DECLARED = (",
        "from dmlgather.directml.operators.swap_last import SWAP_LAST\n",
    ),
    "dmlgather/directml/__init__.py": (
        "from dmlgather.directml.findings import",
        "from dmlgather.directml.descriptors import SwapLastOperatorDesc\n",
    ),
    "dmlgather/__init__.py": (
        "from dmlgather.package import lazy_names",
        "from dmlgather.directml import SwapLastOperatorDesc\n",
    ),
}

LISTED = ("dmlgather/directml/operators/__init__.py", "_DECLARED = (", "_DECLARED = (SWAP_LAST, ")

USED = """
import numpy as np
import dmlgather as dg

sizes = lambda *given: dg.BufferTensorDesc(data_type="FLOAT32", sizes=given)
desc = dg.SwapLastOperatorDesc(input_tensor=sizes(2, 3, 4, 5), output_tensor=sizes(2, 3, 5, 4))
assert str(dg.minimum_level(desc)) == "1_0"
x = np.random.default_rng(0).random((2, 3, 4, 5), dtype=np.float32)
assert dg.SwapLastOperatorDesc.of(x) == desc
for device in ("cpu", "reference"):
    assert dg.compile(desc, device=device)(x).tobytes() == desc.operator.reference(desc, x).tobytes()
assert dg.compare(desc, x, devices=("cpu", "reference")).equal
assert "shape" in str(dg.compile(desc).explain())
(finding,) = dg.validate(desc.model_copy(update={"output_tensor": sizes(2, 3, 4, 5)})).errors
assert finding.code == "DML999" and "{2,3,5,4}" in finding.expected
"""


def tensor(*sizes: int) -> dict[str, object]:
    return {"DataType": "FLOAT32", "Sizes": sizes}


MODEL = {
    "resources": {
        "x": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueStart": 0, "valueCount": 6, "valueDelta": 1}},
        "y": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 9, "valueCount": 6}},
    },
    "dispatchables": {
        "swap": {
            "type": "DML_OPERATOR_SWAP_LAST",
            "desc": {"InputTensor": tensor(1, 1, 2, 3), "OutputTensor": tensor(1, 1, 3, 2)},
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "swap", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
        {"type": "print", "resource": "y"},
    ],
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "dmlgather", folder / "dmlgather", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in NEW_FILES.items():
        (folder / name).write_text(text)
    for name, text in APPENDED.items():
        (folder / name).write_text((folder / name).read_text() + text)
    for name, (place, text) in BEFORE.items():
        content = (folder / name).read_text()
        assert content.count(place) == 1, f"{name} has no single {place!r}: correct the recipe, here and in CONTRIBUTING.md"
        (folder / name).write_text(content.replace(place, text + place))
    name, place, text = LISTED
    (folder / name).write_text((folder / name).read_text().replace(place, text))
    return folder


def python(folder: Path, *arguments: str) -> str:
    """Return the output of Python with the copy as the package."""
    done = processes.run([sys.executable, "-P", *arguments], cwd=folder, env={"PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_operator_is_validated_compiled_and_explained(copy: Path) -> None:
    python(copy, "-c", USED)


@pytest.mark.slow
def test_the_command_knows_the_operator(copy: Path) -> None:
    (copy / "swap.json").write_text(json.dumps(MODEL))
    python(copy, "-m", "dmlgather.cli", "check", "swap.json")
    assert "Resource 'y': 0, 3, 1, 4, 2, 5" in python(copy, "-m", "dmlgather.cli", "run", "swap.json")
    assert "SWAP_LAST" in python(copy, "-m", "dmlgather.cli", "explain", "swap.json")
    assert "SWAP_LAST" in python(copy, "-m", "dmlgather.cli", "levels", "--operator", "SWAP_LAST")
    assert "SwapLast" in python(copy, "-m", "dmlgather.cli", "schema", "descriptor")


def test_the_guide_lists_the_files_of_the_recipe() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## Add an operator") : text.index("## Add a rule")]
    product = set(re.findall(r"`(dmlgather/[\w/.]+)`", section.partition("Only if needed")[0]))
    folders = {f"{Path(name).parent}/" for name in NEW_FILES}
    assert product == {*APPENDED, *BEFORE, *folders}
