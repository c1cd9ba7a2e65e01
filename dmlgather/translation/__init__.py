"""Translation of problems, descriptors and DxDispatch models to ONNX."""

from dmlgather.translation.translating import Translation, translate

__all__ = ["Translation", "translate"]
