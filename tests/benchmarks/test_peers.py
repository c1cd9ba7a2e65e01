"""All peers move the documented bits in every notation of a case, or give a reason why they cannot."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import PEERS
from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import ALL, BACK, EVERY_OTHER, Take, ViewCopy
from benchmarks.peers import Stage, invite
from benchmarks.workload_arrays import make
from tests import seeds
from tests.benchmarks.small import PRESENT, all_cases

ON_CPU = Stage("cpu", 2)
NO_VIEWS = {"jax": "JAX", "onnxruntime": "ONNX", "openvino": "OpenVINO"}


def test_the_test_environment_has_its_peers() -> None:
    """Otherwise, tests over the present peers could test none."""
    present, missing = invite(tuple(PEERS), ON_CPU)
    assert {peer.name for peer in present} >= set(PRESENT)
    assert missing["cupy"] == "does not run on cpu"
    if find_spec("torch") is None:
        assert missing["torch"].startswith("torch needs the package torch, which is not installed: pip")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRESENT, pytest.param("torch", marks=pytest.mark.torch)])
def test_a_peer_agrees_with_the_documented_pseudocode(name: str) -> None:
    peer = PEERS[name](ON_CPU)
    said, cannot = 0, {}
    for case in all_cases():
        data = make(case.kind, case.dtype, seeds.numpy_rng())
        documented = data.descriptor.operator.reference(data.descriptor, *data.inputs).reshape(case.kind.out_shape)
        try:
            for spelling in peer.spellings(data):
                data.poison()
                result = peer.array(spelling.run())
                assert result.dtype == data.out.dtype, (case.name, spelling.text)
                assert result.shape == documented.shape, (case.name, spelling.text)
                assert result.tobytes() == documented.tobytes(), (case.name, spelling.text)
                assert np.shares_memory(result, data.out) is spelling.preallocated, (case.name, spelling.text)
                said += 1
        except UnsupportedWorkloadError as error:
            cannot[case.workload.name] = str(error)
    why = f"{NO_VIEWS.get(name)} has no strided views"
    assert cannot == (dict.fromkeys(("windows", "one-scalar"), why) if name in NO_VIEWS else {})
    assert said > 100 if name in ("numpy", "torch") else said > 60


@pytest.mark.parametrize("name", [*PRESENT])
@pytest.mark.parametrize(
    "slices", [(slice(3, 0, -1), slice(2, 6, 2)), (EVERY_OTHER, slice(5, 0, -2)), (slice(1), BACK), (ALL, slice(5, 6))]
)
def test_all_peers_agree_on_any_slice(name: str, slices: tuple[slice, ...]) -> None:
    data = make(ViewCopy((4, 6), slices), "float32", seeds.numpy_rng())
    documented = data.descriptor.operator.reference(data.descriptor, *data.inputs)
    peer = PEERS[name](ON_CPU)
    for spelling in peer.spellings(data):
        assert peer.array(spelling.run()).tobytes() == documented.tobytes()


def test_onnx_and_openvino_refuse_views_of_two_operators() -> None:
    data = make(ViewCopy((4, 6), (ALL, EVERY_OTHER), strides=(1, 4)), "float32", seeds.numpy_rng())
    for name, why in (("onnxruntime", "two nodes"), ("openvino", "two operations")):
        with pytest.raises(UnsupportedWorkloadError, match=why):
            list(PEERS[name](ON_CPU).spellings(data))


def test_drawn_floats_are_finite_and_otherwise_random() -> None:
    for dtype in ("float16", "float32"):
        base = make(Take((300, 7), 1), dtype, seeds.numpy_rng()).base
        assert np.isfinite(base).all()
        assert base.shape == (2100,)
        bits = base.view(f"u{base.itemsize}")
        varying = np.bitwise_or.reduce(bits) ^ np.bitwise_and.reduce(bits)
        assert int(varying) == {2: 0xBFFF, 4: 0xBFFFFFFF}[base.itemsize], "every bit but the exponent's highest"


@pytest.mark.parametrize("name", [name for name in PEERS if name != "numpy"])
def test_a_peer_that_is_not_installed_is_listed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in (name, "openvino", "dask"):  # they are loaded by name
        monkeypatch.setitem(sys.modules, package, None)
    device = PEERS[name].devices[0]
    present, missing = invite((name,), Stage(device, 1))
    assert present == []
    extra = {"cupy": "cuda13", "fused-loop": "dask", "dask": "dask"}.get(name, "bench")
    assert missing[name].endswith(f"(dmlgather's extra {extra})")
