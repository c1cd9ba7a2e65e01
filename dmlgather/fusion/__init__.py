"""Fusing: a graph of problems as few plans, and running it."""

from dmlgather.fusion.fused import Cut, Fused, FusedLaunch
from dmlgather.fusion.fusing import fuse
from dmlgather.fusion.prepared_graph import OUT

__all__ = ["OUT", "Cut", "Fused", "FusedLaunch", "fuse"]
