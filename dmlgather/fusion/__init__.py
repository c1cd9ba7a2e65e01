"""Fusing of a graph of problems into fewer plans, and execution of the fused graph."""

from dmlgather.fusion.fused import Cut, Fused, FusedLaunch
from dmlgather.fusion.fusing import fuse
from dmlgather.fusion.prepared_graph import OUT

__all__ = ["OUT", "Cut", "Fused", "FusedLaunch", "fuse"]
