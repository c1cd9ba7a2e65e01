"""Equivalence: the proof that two programs index alike for all inputs, or inputs for which they do not."""

from dmlgather.equivalence.deciding import ASSUMPTIONS, decide, equivalent
from dmlgather.equivalence.results import Counterexample, Equivalence, Given

__all__ = ["ASSUMPTIONS", "Counterexample", "Equivalence", "Given", "decide", "equivalent"]
