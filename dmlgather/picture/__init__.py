"""What an operator becomes, in words, and as pictures of plans over layouts: what it reads and writes, as SVG."""

from dmlgather.picture.drawing import draw
from dmlgather.picture.subject import ShownTensor, Subject, of_descriptor, of_plan, of_problem

__all__ = ["ShownTensor", "Subject", "draw", "of_descriptor", "of_plan", "of_problem"]
