"""Which dispatches of a DxDispatch model run as one launch."""

from dmlgather.model_fusion.dispatch_fusing import fuse_model
from dmlgather.model_fusion.launches import FusedModel, ModelLaunch, Region

__all__ = ["FusedModel", "ModelLaunch", "Region", "fuse_model"]
