"""Checking ONNX models: each node of the family is judged for DirectML, and nothing runs."""
