"""The ONNX backend: whole models, as fused graphs."""

from dmlgather.onnx.backend.interface import Backend
from dmlgather.onnx.backend.prepared_model import PreparedModel

__all__ = ["Backend", "PreparedModel"]
