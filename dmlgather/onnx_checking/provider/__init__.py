"""What onnxruntime's DirectML provider does with the nodes of a model."""
