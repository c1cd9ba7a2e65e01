"""dmlgather with CuPy on a machine without a driver (ci/heavy gpu): messages, compilation and the disk cache."""
