"""Advice for users without a working driver, inside and outside containers.

Judge: the documents of Docker, Podman, Kubernetes and NVIDIA, as tables: how a container gets a GPU, and which files mark it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dmlgather.backends.cuda import DeviceError, driver, nvidia_driver
from dmlgather.backends.cuda.nvidia_driver import Driver, remedy
from tests.cli.command import Command

NONE = Driver(None, (), "there is no NVIDIA driver (libcuda.so.1 was not found)")
NO_GPU = Driver("13.0", (), "the NVIDIA driver finds no usable GPU (cuInit returned 100)")
OLD = Driver("11.8", (), "the NVIDIA driver is too old: it has CUDA 11.8, and CuPy needs 12.0")

COMMANDS = {
    "Docker": "`docker run --gpus all`",
    "Podman": "`podman run --device nvidia.com/gpu=all`",
    "Kubernetes": "`limits: {nvidia.com/gpu: 1}`",
}

MARKS = {
    "a file of Docker": (".dockerenv", "", "Docker"),
    "a group of Docker": ("proc/self/cgroup", "4:memory:/docker/0123456789abcdef0123\n0::/\n", "Docker"),
    "a scope of Docker": ("proc/self/cgroup", "0::/system.slice/docker-0123456789abcdef0123.scope\n", "Docker"),
    "a file of Podman": ("run/.containerenv", 'engine="podman-5.4.0"\n', "Podman"),
    "a scope of Podman": ("proc/self/cgroup", "0::/machine.slice/libpod-0123456789abcdef0123.scope/container\n", "Podman"),
    "a secret of Kubernetes": ("var/run/secrets/kubernetes.io/serviceaccount/token", "", "Kubernetes"),
    "a slice of Kubernetes": ("proc/self/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-01.scope\n", "Kubernetes"),
    "a user's session": ("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n", None),
    "the daemon of Docker": ("proc/self/cgroup", "0::/system.slice/docker.service\n", None),
    "no groups": ("etc/hostname", "pc\n", None),
}
"""A file below the root, its content, and the container program that it indicates."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a system without files. The tests themselves may run in a container."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(nvidia_driver, "_ROOT", tmp_path)
    return tmp_path


def put(root: Path, name: str, text: str = "") -> None:
    """Write a file below the root."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.mark.parametrize("found", [NONE, NO_GPU])
@pytest.mark.parametrize("mark", MARKS)
def test_the_remedy_in_a_container_is_its_start_command(root: Path, mark: str, found: Driver) -> None:
    file, text, name = MARKS[mark]
    put(root, file, text)
    advice = remedy(found)
    assert {each for each, command in COMMANDS.items() if command in advice} == ({name} if name else set())
    assert ("apt install" in advice) == (name is None)  # a container has the driver of its host
    assert advice.startswith(f"this process runs in a container of {name}: " if name else "install or update the driver")
    assert advice.endswith("or run where there is a GPU; everything else works without one")


def test_kubernetes_is_recognised_before_docker(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert COMMANDS["Kubernetes"] in remedy(NONE)
    put(root, ".dockerenv")
    assert COMMANDS["Kubernetes"] in remedy(NONE)


def test_a_driver_that_is_too_old_is_updated_on_the_host(root: Path) -> None:
    advice = remedy(OLD)
    assert advice.startswith("update the driver (`sudo apt install nvidia-driver-580` on Ubuntu")
    assert "host" not in advice
    put(root, ".dockerenv")
    advice = remedy(OLD)
    assert advice.startswith("update the driver (")
    assert "on the host of this container" in advice
    assert COMMANDS["Docker"] not in advice


@pytest.mark.parametrize("mark", [".dockerenv", "etc/hostname"])
def test_the_error_and_env_give_the_same_remedy(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], no_cupy: None, mark: str
) -> None:
    put(root, mark)
    monkeypatch.setattr(nvidia_driver, "ask", lambda: NONE)
    with pytest.raises(DeviceError) as raised:
        driver.require(0)
    advice = str(raised.value).removeprefix(f"{NONE.error}; ")
    assert (COMMANDS["Docker"] in advice) == (mark == ".dockerenv")
    command = Command(capfd)
    assert json.loads(command("env", "--json").out)["missing"] == [{"what": NONE.error, "remedy": advice}]
    assert f"missing: {NONE.error}\n    {advice}\n" in command("env").out
