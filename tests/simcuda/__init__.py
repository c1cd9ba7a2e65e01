"""A simulated GPU: a `libcuda.so.1` under which CuPy, NVRTC and this library run unmodified; an interpreter executes kernels.

`library.py` builds it and says how a process finds it. `driver.h` is what its subjects share, `program.h` PTX as it is executed.
It runs PTX, not machine code; blocks run one after the other, and nothing is timed. PyTorch and JAX have runtimes of their own,
which do not work with it.
"""
