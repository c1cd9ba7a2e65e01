"""Conformance with DirectML: cases to run with DxDispatch on Windows, and comparison of their results with dmlgather's."""
