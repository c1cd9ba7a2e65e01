"""Reading a model file: its protobuf without weights, its local functions, and ONNX's shape inference."""
