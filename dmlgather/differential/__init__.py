"""Differential checks: a program of problems in the reference backend against an ONNX model in other libraries."""

from dmlgather.differential.agreement import Agreement, Counterexample, check_agreement

__all__ = ["Agreement", "Counterexample", "check_agreement"]
