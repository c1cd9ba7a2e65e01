"""dmlgather beside the real package CuPy on a machine without a driver (ci/heavy cupy): names, arguments, compiling, arrays."""
