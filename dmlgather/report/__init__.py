"""The reports of `dmlgather check`, in formats for people and other programs."""
