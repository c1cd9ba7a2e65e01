"""Verdicts of onnxruntime's DirectML provider on the nodes of a model."""
