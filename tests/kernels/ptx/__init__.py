"""Launches of the kernels in the interpreter of PTX (`tests/simcuda/`), over buffers of exact size, without CuPy and a driver.

`compile.py` calls NVRTC, and `machine.py` launches. The interpreter checks every access, finds races and counts memory traffic.
It follows NVIDIA's PTX ISA documentation, and refuses unknown instructions.
"""
