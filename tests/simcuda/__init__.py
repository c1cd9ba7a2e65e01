"""A simulated GPU. Its `libcuda.so.1` runs CuPy, NVRTC and this library unmodified, and an interpreter executes kernels.

`library.py` builds it and sets up a process for it. `driver.h` declares its common parts, and `program.h` the executed PTX. It
runs PTX, not machine code. Blocks run one after another, and nothing is timed. PyTorch and JAX have runtimes of their own, which
do not work with it.
"""
