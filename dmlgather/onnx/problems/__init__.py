"""ONNX: Gather, GatherElements, GatherND, Slice, DepthToSpace and SpaceToDepth in all their versions."""
