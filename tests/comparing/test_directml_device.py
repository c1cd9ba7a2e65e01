"""The device "directml" of `compare`, over a stand-in with the published signatures. DirectML itself has not been asked."""

from __future__ import annotations

import importlib.metadata
import json
import random
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dmlgather as dg
from conformance.random_cases import random_case
from dmlgather.backends.cuda.driver import DeviceError
from dmlgather.comparing import directml_device
from dmlgather.directml import FeatureLevel, TensorFlags
from tests.cli.command import ROOT, Command
from tests.comparing import directml_stand_in
from tests.dxdispatch.models import GATHER, MODEL, changed, write

BOTH = ("cpu", "directml")


@pytest.fixture
def directml(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in in the place of the package."""
    monkeypatch.setitem(sys.modules, "directml", directml_stand_in.module())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"directml": "0.1.0"}[name])
    _forget()
    yield
    _forget()


def _forget() -> None:
    directml_device.package.cache_clear()
    directml_device._device.cache_clear()


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


def tensor(data_type: str, *sizes: int, **fields: object) -> dg.BufferTensorDesc:
    return dg.BufferTensorDesc.model_validate({"data_type": data_type, "sizes": sizes, **fields})


def copied(data: dg.BufferTensorDesc, output: dg.BufferTensorDesc) -> dg.Slice1OperatorDesc:
    return dg.Slice1OperatorDesc(
        input_tensor=data,
        output_tensor=output,
        input_window_offsets=[0] * output.rank,
        input_window_sizes=output.sizes,
        input_window_strides=[1] * output.rank,
    )


@pytest.mark.usefixtures("directml")
def test_random_legal_descriptors_are_equal_or_refused_for_a_reason() -> None:
    rng, equal, owned = random.Random(5), 0, 0
    for turn in range(300):
        desc, inputs = random_case(rng, ("GATHER", "SLICE1")[turn % 2], FeatureLevel.LEVEL_6_4)
        try:
            found = dg.compare(desc, *inputs, devices=BOTH, buffers=True)
        except DeviceError as error:
            reasons = ("packs outputs", "binds a packed tensor", "an output of sizes")
            assert any(reason in str(error) for reason in reasons), str(error)  # noqa: PT017 # only some are refused
            continue
        assert found.equal, str(found)
        equal += 1
        owned += desc.tensor("input_tensor").flags == TensorFlags.OWNED_BY_DML
    assert equal > 80
    assert owned


@pytest.mark.usefixtures("directml")
def test_arrays_keep_the_bits_of_nans() -> None:
    bits = np.array([[0x7FA12345, 0xFFC12345, 1], [0x807FFFFF, 0x7F800000, 3]], np.uint32)
    desc = copied(tensor("FLOAT32", 2, 3), tensor("FLOAT32", 2, 3))
    found = dg.compare(desc, bits.view(np.float32), devices=("directml", "cpu"))
    assert found.equal, str(found)
    assert found.outputs[0] is not None
    assert found.outputs[0].view(np.uint32).tolist() == bits.tolist()


@pytest.mark.usefixtures("directml")
def test_a_model_is_compared_and_a_wrong_result_is_found(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = command("compare", write(tmp_path, MODEL), "--devices", "cpu,directml", "--json")
    report = json.loads(ended.out)
    assert (ended.code, report["devices"][1]) == (0, {"name": "directml", "title": "DirectML, by the package directml 0.1.0"})
    monkeypatch.setattr(directml_stand_in.Graph, "spoil", staticmethod(lambda array: array + 1))
    ended = command("compare", write(tmp_path, MODEL), "--devices", "cpu,directml")
    assert ended.code == 1
    assert "8 of 8 elements differ between cpu and directml" in ended.out


@pytest.mark.usefixtures("directml")
def test_a_single_descriptor_with_random_indices(tmp_path: Path, command: Command) -> None:
    ended = command("compare", write(tmp_path, GATHER), "--devices", "directml,reference", "--seed", 3)
    assert (ended.code, ended.out) == (0, "commands[0] 'gather': equal on directml, reference: 8 elements, bit for bit\n")


SMALL = tensor("FLOAT32", 2, 3)
REFUSED = {
    "another operator": (
        dg.SliceOperatorDesc(input_tensor=SMALL, output_tensor=SMALL, offsets=[0, 0], sizes=[2, 3], strides=[1, 1]),
        "has no SLICE, only GATHER and SLICE1",
    ),
    "strides of the output": (copied(SMALL, tensor("FLOAT32", 2, 3, strides=[1, 2])), "packs outputs"),
    "a larger input": (copied(tensor("FLOAT32", 2, 3, total_tensor_size_in_bytes=64), SMALL), "InputTensor states 64"),
    "a smaller output": (
        dg.Slice1OperatorDesc(
            input_tensor=SMALL,
            output_tensor=tensor("FLOAT32", 2, 2),
            input_window_offsets=[0, 0],
            input_window_sizes=[2, 3],
            input_window_strides=[1, 1],
        ),
        "an output of sizes {2,3}, and not {2,2}",
    ),
}


@pytest.mark.usefixtures("directml")
@pytest.mark.parametrize("case", REFUSED)
def test_what_the_package_would_run_otherwise_is_refused(tmp_path: Path, command: Command, case: str) -> None:
    desc, message = REFUSED[case]
    with pytest.raises(DeviceError) as caught:
        dg.compare(desc, np.zeros((2, 3), np.float32), devices=BOTH)
    assert message in str(caught.value)
    ended = command("compare", write(tmp_path, desc.document()), "--devices", "cpu,directml")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "internal error" not in ended.err


@pytest.mark.usefixtures("directml")
def test_what_the_package_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("DML_GATHER: E_INVALIDARG\n(0x80070057)")

    monkeypatch.setattr(sys.modules["directml"], "slice", failing)
    with pytest.raises(DeviceError, match=r"^DirectML did not run SLICE1: DML_GATHER: E_INVALIDARG \(0x80070057\)$"):
        dg.compare(copied(SMALL, SMALL), np.zeros((2, 3), np.float32), devices=BOTH)


@pytest.mark.usefixtures("directml")
def test_other_policies_are_refused() -> None:
    desc = dg.parse_descriptor(changed(start=GATHER))
    arrays = np.zeros((3, 2), np.float32), np.zeros((1, 4), np.uint32)
    with pytest.raises(ValueError, match="directml can only clamp"):
        dg.compare(desc, *arrays, devices=BOTH, out_of_bounds="raise")
    assert dg.compare(desc, *arrays, devices=BOTH, out_of_bounds="clamp").equal
    with pytest.raises(ValueError, match="at least two different devices"):
        dg.compare(desc, *arrays, devices=("directml", "directml"))


@pytest.mark.parametrize("found", [None, types.ModuleType("directml")], ids=["nothing", "a folder of that name"])
def test_where_the_package_is_missing_the_remedy_is_named(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, found: types.ModuleType | None
) -> None:
    _forget()
    monkeypatch.setitem(sys.modules, "directml", found)
    ended = command("compare", write(tmp_path, MODEL), "--devices", "cpu,directml")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "dmlgather: the device directml needs the package directml, which runs on Windows: pip install directml\n"


def test_it_is_imported_on_use_alone() -> None:
    code = "import sys, dmlgather as dg; dg.compare; assert 'directml' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
