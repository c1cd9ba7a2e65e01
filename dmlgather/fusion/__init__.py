"""Fusing: a graph of problems becomes a graph with fewer plans, which can be executed."""

from dmlgather.fusion.fused import Cut, Fused, FusedLaunch
from dmlgather.fusion.fusing import fuse
from dmlgather.fusion.prepared_graph import OUT

__all__ = ["OUT", "Cut", "Fused", "FusedLaunch", "fuse"]
