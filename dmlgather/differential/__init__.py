"""Differential checks: compare a program, run in the reference backend, with an ONNX model, run in other libraries."""

from dmlgather.differential.agreement import Agreement, Counterexample, check_agreement

__all__ = ["Agreement", "Counterexample", "check_agreement"]
