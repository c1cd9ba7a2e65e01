"""Reading a model file: its protobuf without weights, its local functions, and its types by ONNX's shape inference."""
