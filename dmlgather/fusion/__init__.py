"""Fusing: a graph of problems as few plans, and running it."""

from dmlgather.fusion.fused import Cut, Fused, FusedLaunch
from dmlgather.fusion.fusing import fuse

__all__ = ["Cut", "Fused", "FusedLaunch", "fuse"]
