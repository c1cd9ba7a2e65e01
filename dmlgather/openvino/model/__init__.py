"""OpenVINO's IR files: read safely, every layer of the family judged."""
