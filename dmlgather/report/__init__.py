"""What `dmlgather check` found, in the formats that people and other programs read."""
