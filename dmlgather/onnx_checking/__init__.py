"""The check of ONNX models: DirectML's verdicts on gathers and slices. Nothing runs."""
