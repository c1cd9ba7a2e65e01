"""The libraries that the operators are compared with."""

from __future__ import annotations

from benchmarks.errors import BenchError, UnsupportedWorkloadError
from benchmarks.peers.cupy_peer import CupyPeer
from benchmarks.peers.dask_peers import DaskPeer, FusedLoopPeer
from benchmarks.peers.jax_peer import JaxPeer
from benchmarks.peers.numpy_peer import NumpyPeer
from benchmarks.peers.onnxruntime_peer import OnnxRuntimePeer
from benchmarks.peers.openvino_peer import OpenVinoPeer
from benchmarks.peers.peer import Peer, Spelling, Stage
from benchmarks.peers.torch_peer import TorchPeer
from dmlgather.package import missing_extra

__all__ = ["PEERS", "Peer", "Spelling", "Stage", "check_names", "invite"]

PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (NumpyPeer, TorchPeer, JaxPeer, OnnxRuntimePeer, OpenVinoPeer, CupyPeer, FusedLoopPeer, DaskPeer)
}


def check_names(names: tuple[str, ...]) -> None:
    """Raise BenchError for an unknown name, and for an empty list."""
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise BenchError(f"unknown peer {', '.join(unknown) or '(none)'}; expected some of: {', '.join(PEERS)}")


def invite(names: tuple[str, ...], stage: Stage) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that can run on the stage, and for the others the reason."""
    present, missing = [], {}
    for name in names:
        kind = PEERS[name]
        if stage.device not in kind.devices:
            missing[name] = f"does not run on {stage.device}"
            continue
        try:
            present.append(kind(stage))
        except ImportError as error:
            missing[name] = str(missing_extra(name, kind.extra, error))
        except UnsupportedWorkloadError as error:
            missing[name] = str(error)
    return present, missing
