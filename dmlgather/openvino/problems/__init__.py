"""Problems of OpenVINO: Gather, GatherElements, GatherND, Slice and StridedSlice in all versions."""
