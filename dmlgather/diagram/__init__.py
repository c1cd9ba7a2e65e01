"""What an operator becomes, in words, and as pictures of plans over layouts: what it reads and writes, as SVG."""

from dmlgather.diagram.drawing import draw
from dmlgather.diagram.subject import ShownTensor, Subject, of_descriptor, of_plan, of_problem

__all__ = ["ShownTensor", "Subject", "draw", "of_descriptor", "of_plan", "of_problem"]
