"""Models of packages on PyPI, checked by dmlgather (`ci/heavy models`). Judge: onnxruntime's runs."""
