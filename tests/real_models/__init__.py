"""Models of packages on PyPI, checked by dmlgather and judged by onnxruntime's own runs of them (`ci/heavy models`)."""
