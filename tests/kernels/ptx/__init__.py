"""Launches of the kernels in the interpreter of PTX (`tests/simcuda/`), over buffers of exact size; no CuPy, no driver.

`compile.py` calls NVRTC, `machine.py` launches. The interpreter checks every access, finds races, counts memory traffic. It is
written from NVIDIA's PTX ISA documentation, and refuses what it does not know.
"""
