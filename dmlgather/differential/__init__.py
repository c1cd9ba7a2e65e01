"""Differential checks: a program and an ONNX model run on the same inputs, and their outputs are compared."""

from dmlgather.differential.agreement import Agreement, Counterexample, check_agreement

__all__ = ["Agreement", "Counterexample", "check_agreement"]
