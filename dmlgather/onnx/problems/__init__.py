"""Problems of ONNX: Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth in all versions."""
