"""dmlgather beside CuPy on a machine without a driver (ci/heavy gpu): what is said, what is compiled and kept on disk."""
