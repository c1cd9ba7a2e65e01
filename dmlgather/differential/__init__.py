"""Differential checks: a program (problems or DirectML descriptors) and an ONNX model run on the same inputs, and their outputs
are compared. The program runs in the reference backend, the model in other libraries.
"""

from dmlgather.differential.agreement import Agreement, Counterexample, check_agreement

__all__ = ["Agreement", "Counterexample", "check_agreement"]
