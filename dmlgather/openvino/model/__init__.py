"""OpenVINO's IR files: read safely, every Gather layer judged."""
