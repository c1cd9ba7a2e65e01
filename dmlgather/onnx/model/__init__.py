"""ONNX model files: reading them, finding the nodes of the family, and judging whether DirectML takes each."""
