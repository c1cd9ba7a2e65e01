"""ONNX model files: read, walked with their scopes, every node of the family judged."""
