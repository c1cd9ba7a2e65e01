"""ONNX: Gather, GatherElements, GatherND and Slice in all their versions."""
