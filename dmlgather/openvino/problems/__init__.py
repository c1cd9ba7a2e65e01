"""OpenVINO: Gather in its versions 1, 7 and 8."""
