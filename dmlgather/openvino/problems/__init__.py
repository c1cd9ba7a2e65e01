"""OpenVINO: Gather, GatherElements, GatherND, Slice and StridedSlice in their versions."""
