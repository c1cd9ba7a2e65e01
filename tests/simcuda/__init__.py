"""A simulated GPU: a `libcuda.so.1` under which CuPy, NVRTC and this library run unmodified, and kernels run in an interpreter."""
