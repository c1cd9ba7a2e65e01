"""Auxiliary operators, which prepare the inputs of gathers and slices in models and pass their outputs on: Identity, Constant,
Shape, Squeeze, Unsqueeze, Reshape, Transpose and Cast, in every version that ONNX has of them, on NumPy and CuPy arrays.

Only Cast changes the bits of a tensor. Results are views where they can be; arrays stay on their device.
"""
