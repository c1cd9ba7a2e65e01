"""The ONNX backend: whole models, run node by node."""

from dmlgather.onnx.backend.prepared_model import Backend, PreparedModel

__all__ = ["Backend", "PreparedModel"]
