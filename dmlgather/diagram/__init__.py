"""Explanations of operators as text, and SVG diagrams of the elements that plans read and write."""

from dmlgather.diagram.drawing import draw
from dmlgather.diagram.subject import ShownTensor, Subject, of_descriptor, of_plan, of_problem

__all__ = ["ShownTensor", "Subject", "draw", "of_descriptor", "of_plan", "of_problem"]
