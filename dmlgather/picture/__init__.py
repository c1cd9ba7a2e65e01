"""Pictures of plans over layouts: what an operator reads and writes, as SVG. Nothing here knows an operator."""

from dmlgather.picture.drawing import draw
from dmlgather.picture.subject import ShownTensor, Subject, of_descriptor, of_plan, of_problem

__all__ = ["ShownTensor", "Subject", "draw", "of_descriptor", "of_plan", "of_problem"]
