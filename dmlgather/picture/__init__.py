"""Pictures of plans over layouts: what an operator reads and writes, as SVG. Nothing here knows an operator."""

from dmlgather.picture.sheet import draw
from dmlgather.picture.subject import Subject, Tensor, of_descriptor, of_plan, of_problem

__all__ = ["Subject", "Tensor", "draw", "of_descriptor", "of_plan", "of_problem"]
